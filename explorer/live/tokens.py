"""The parts of a tokenizer.json that `tokenizer.js` supports, for the browser."""

import json
import re
from typing import Any

from explorer.problems import InputProblem
from models.foreign.tokens import ForeignTokenizer
from models.pictures import PictureTokenizer
from models.tokenizer import Tokenizer

PARTS = {
    "normalizer": "Sequence NFC NFD NFKC NFKD Lowercase Prepend Strip Replace",
    "pre_tokenizer": "Sequence Metaspace Split Digits ByteLevel",
    "decoder": "Sequence Metaspace ByteLevel ByteFallback Fuse Replace Strip",
}
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
"""In the patterns of many models; older browsers support no flags for a part of a pattern."""
_UNKNOWN_SYNTAX = re.compile(r"\(\?[a-zA-Z^-]|\(\?>|[?*+}]\+|\\[AzZGhHXR]|\[\[:|&&")
"""Syntax of Oniguruma that JavaScript lacks: flags, atomic groups, possessive quantifiers, …"""


def described(tokenizer: Tokenizer) -> dict[str, Any]:
    """The tokenizer for `tokenizer.js`. Raises InputProblem `live_unsupported` with the part."""
    if type(tokenizer) not in (Tokenizer, ForeignTokenizer, PictureTokenizer):
        raise _lacking(type(tokenizer).__name__)
    if tokenizer.source:
        raise _lacking("source_tokenizer.json")
    whole = json.loads(tokenizer._tokenizer.to_str())
    model = whole["model"]
    if model["type"] != "BPE":
        raise _lacking(model["type"])
    for name in ("continuing_subword_prefix", "end_of_word_suffix", "dropout"):
        if model.get(name):
            raise _lacking(name)
    added = {each["content"]: each["id"] for each in whole["added_tokens"]}
    plain = [each["content"] for each in whole["added_tokens"] if not each["special"]]
    if plain:
        raise _lacking(f"added token {plain[0]!r}")
    ids = {**model["vocab"], **added}
    pieces: list[str | None] = [None] * (max(ids.values()) + 1)
    for piece, at in ids.items():
        pieces[at] = piece
    return {
        **{part: _checked(part, whole[part]) for part in PARTS},
        "pieces": pieces,
        "merges": [
            tuple(pair.split(" ")) if isinstance(pair, str) else pair for pair in model["merges"]
        ],
        "special": [at for at in ids.values() if tokenizer.is_special(at)],
        "marks": {name: getattr(tokenizer.marks, name) for name in ("mask", "unknown")},
        "byte_fallback": bool(model.get("byte_fallback")),
        "ignore_merges": bool(model.get("ignore_merges")),
    }


def _checked(part: str, rule: Any) -> Any:
    """The rule itself, if the browser's tokenizer supports its type and those of its members."""
    if isinstance(rule, list):
        return [_checked(part, each) for each in rule]
    if rule is None:
        return None
    if rule["type"] not in PARTS[part].split():
        raise _lacking(f"{part} {rule['type']}")
    if rule["type"] == "Split" and (rule["behavior"] != "Isolated" or rule.get("invert")):
        raise _lacking(f"{part} Split {rule['behavior']}")
    if isinstance(rule.get("pattern"), dict) and "Regex" in rule["pattern"]:
        rule = {**rule, "pattern": {"Regex": _pattern(rule["pattern"]["Regex"])}}
    return {
        name: _checked(part, each) if isinstance(each, list) else each
        for name, each in rule.items()
    }


def _pattern(expression: str) -> str:
    """A regular expression that JavaScript reads alike."""
    spelled = "(?:" + re.sub(
        "[a-z]", lambda each: f"[{each[0]}{each[0].upper()}]", CONTRACTIONS[4:]
    )
    found = expression.replace(CONTRACTIONS, spelled)
    if _UNKNOWN_SYNTAX.search(found):
        raise _lacking(f"pattern {expression[:60]!r}")
    return found


def _lacking(part: str) -> InputProblem:
    return InputProblem("live_unsupported", part=f"tokenizer: {part}")
