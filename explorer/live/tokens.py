"""The parts of a tokenizer.json that `tokenizer.js` supports, for the browser."""

import json
import re
import struct
from base64 import b64decode
from typing import Any

import numpy as np

from explorer.problems import InputProblem
from models.foreign.sentencepieces import MarianTokenizer
from models.foreign.tokens import PAIR, ForeignTokenizer
from models.pictures import PictureTokenizer
from models.tokenizer import Tokenizer

PARTS = {
    "normalizer": "Sequence NFC NFD NFKC NFKD Lowercase Prepend Strip Replace StripAccents"
    " BertNormalizer Precompiled",
    "pre_tokenizer": "Sequence Metaspace Split Digits ByteLevel BertPreTokenizer WhitespaceSplit",
    "decoder": "Sequence Metaspace ByteLevel ByteFallback Fuse Replace Strip WordPiece",
}
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
"""In the patterns of many models; older browsers support no flags for a part of a pattern."""
_UNKNOWN_SYNTAX = re.compile(r"\(\?[a-zA-Z^-]|\(\?>|[?*+}]\+|\\[AzZGhHXR]|\[\[:|&&")
"""Syntax of Oniguruma that JavaScript lacks: flags, atomic groups, possessive quantifiers, …"""


def described(tokenizer: Tokenizer) -> dict[str, Any]:
    """The tokenizer for `tokenizer.js`. Raises InputProblem `live_unsupported` with the part."""
    if type(tokenizer) not in (Tokenizer, ForeignTokenizer, PictureTokenizer, MarianTokenizer):
        raise _lacking(type(tokenizer).__name__)
    marian = isinstance(tokenizer, MarianTokenizer)
    if tokenizer.source and not marian:
        raise _lacking("source_tokenizer.json")
    whole = json.loads(tokenizer._tokenizer.to_str())
    ids = dict(whole["model"]["vocab"]) if marian else {}
    if isinstance(tokenizer, MarianTokenizer):  # a model of pieces, and a table of their ids
        reader = tokenizer.source if isinstance(tokenizer.source, MarianTokenizer) else tokenizer
        whole = json.loads(reader._pieces.to_str()) | {
            part: whole[part] for part in ("decoder", "added_tokens")
        }
    model = whole["model"]
    for name in ("end_of_word_suffix", "dropout"):
        if model.get(name):
            raise _lacking(name)
    added = {token["content"]: token["id"] for token in whole["added_tokens"]}
    plain = [token["content"] for token in whole["added_tokens"] if not token["special"]]
    if plain:
        raise _lacking(f"added token {plain[0]!r}")
    if not marian:
        listed = model["vocab"]
        ids = (
            listed
            if isinstance(listed, dict)
            else {token: i for i, (token, _) in enumerate(listed)}
        )
    ids |= added
    pieces: list[str | None] = [None] * (max(ids.values()) + 1)
    for piece, at in ids.items():
        pieces[at] = piece
    pairs = isinstance(tokenizer, ForeignTokenizer) and tokenizer.between is not None
    return {
        **{part: _checked(part, whole[part]) for part in PARTS},
        **_model(model),
        "foreign": isinstance(tokenizer, ForeignTokenizer),
        "codes": marian,
        "pieces": pieces,
        "special": [at for at in ids.values() if tokenizer.is_special(at)],
        "marks": {name: getattr(tokenizer.marks, name) for name in ("mask", "unknown")},
        "pair": PAIR if pairs else None,
        "byte_fallback": bool(model.get("byte_fallback")),
        "ignore_merges": bool(model.get("ignore_merges")),
    }


def _model(model: dict[str, Any]) -> dict[str, Any]:
    """What `tokenizer.js` needs to split a word into pieces: one of three algorithms."""
    if model["type"] == "WordPiece":
        most = model["max_input_chars_per_word"]
        return {"words": {"prefix": model["continuing_subword_prefix"], "most": most}}
    if model["type"] == "Unigram":
        unknown = None if model["unk_id"] is None else model["vocab"][model["unk_id"]][0]
        return {"scored": {"pieces": model["vocab"], "unknown": unknown}}
    if model["type"] != "BPE" or model.get("continuing_subword_prefix"):
        raise _lacking(model["type"])
    pairs = model["merges"]
    return {"merges": [tuple(pair.split(" ")) if isinstance(pair, str) else pair for pair in pairs]}


def _checked(part: str, rule: Any) -> Any:
    """The rule itself, if the browser's tokenizer supports its type and those of its members."""
    if isinstance(rule, list):
        return [_checked(part, member) for member in rule]
    if rule is None:
        return None
    if rule["type"] not in PARTS[part].split():
        raise _lacking(f"{part} {rule['type']}")
    if rule["type"] == "Split" and (rule["behavior"] != "Isolated" or rule.get("invert")):
        raise _lacking(f"{part} Split {rule['behavior']}")
    if rule["type"] == "Precompiled":
        return {"type": rule["type"], "table": _table(b64decode(rule["precompiled_charsmap"]))}
    if isinstance(rule.get("pattern"), dict) and "Regex" in rule["pattern"]:
        rule = {**rule, "pattern": {"Regex": _pattern(rule["pattern"]["Regex"])}}
    return {
        name: _checked(part, member) if isinstance(member, list) else member
        for name, member in rule.items()
    }


def _table(data: bytes) -> dict[str, str]:
    """The replacements of a SentencePiece model: a trie in a double array (Darts), and texts."""
    (size,) = struct.unpack_from("<I", data)
    units, texts = np.frombuffer(data, "<u4", size // 4, 4), data[4 + size :]
    shifts = (units & 512) >> 6
    children = np.arange(len(units), dtype=np.uint32) ^ ((units >> 10) << shifts)
    letters = np.arange(1, 256, dtype=np.uint32)
    table, waiting = {}, [(b"", int(children[0]))]
    while waiting:
        begun, node = waiting.pop()
        places = node ^ letters
        places = places[places < len(units)]
        for at in places[(units[places] & 0x800000FF) == (places ^ node)].tolist():
            whole, child = begun + bytes([at ^ node]), int(children[at])
            if units[at] & 256:  # a key ends here; its text ends with a zero
                start = int(units[child] & 0x7FFFFFFF)
                table[whole.decode()] = texts[start : texts.index(0, start)].decode()
            waiting.append((whole, child))
    return table


def _pattern(expression: str) -> str:
    """A regular expression that JavaScript reads alike."""
    spelled = "(?:" + re.sub(
        "[a-z]", lambda each: f"[{each[0]}{each[0].upper()}]", CONTRACTIONS[4:]
    )
    regex = expression.replace(CONTRACTIONS, spelled)
    if _UNKNOWN_SYNTAX.search(regex):
        raise _lacking(f"pattern {expression[:60]!r}")
    return regex


def _lacking(part: str) -> InputProblem:
    return InputProblem("live_unsupported", part=f"tokenizer: {part}")
