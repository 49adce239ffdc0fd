"""The tokenizer inside a GGUF file, built from its lists of tokens, merges and scores."""

from collections.abc import Mapping
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from models.foreign.prompts import Template
from models.foreign.tokens import ForeignTokenizer, marks_of
from models.refusals import Refusal

CONTROL, USER_DEFINED = 3, 4  # types of tokens

_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
_OTHERS = r"| ?[^\s\p{L}\p{N}]+[\r\n%s]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA = _LETTERS % "{1,3}" + _OTHERS % ""
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_BEFORE = r"[^\r\n\p{L}\p{N}]?"
SPLITS = {
    "llama-bpe": _LLAMA,
    "llama3": _LLAMA,
    "llama-v3": _LLAMA,
    "qwen2": _LETTERS % "" + _OTHERS % "",
    "tekken": rf"{_BEFORE}{_UPPER}*{_LOWER}+|{_BEFORE}{_UPPER}+{_LOWER}*|\p{{N}}" + _OTHERS % "/",
}
"""Pre-tokenisation patterns of these families, by llama.cpp's names."""

WHOLE = frozenset(SPLITS) - {"qwen2"}
"""Those that use a word of the vocabulary as one token even if no merges build it, and prepend the
start token by default."""


def tokenizer_in(fields: Mapping[str, Any], config: Mapping[str, Any]) -> ForeignTokenizer:
    """Build the tokenizer from a file's fields; `config` has the ids of the special tokens.

    Raises ValueError for an unknown kind.
    """
    listed = fields.get("tokenizer.ggml.tokens") or []
    types = fields.get("tokenizer.ggml.token_type") or [1] * len(listed)
    kind, pre = fields.get("tokenizer.ggml.model"), str(fields.get("tokenizer.ggml.pre"))
    if kind == "gpt2":
        raw, starts = _byte_level(listed, fields["tokenizer.ggml.merges"], pre), pre in WHOLE
    elif kind == "llama":
        raw, starts = _metaspace(listed, types, fields, config["unk_token_id"] or 0), True
    else:
        raise Refusal("gguf_tokenizer", value=repr(kind))
    for token, of in zip(listed, types, strict=True):
        added = tokenizers.AddedToken(token, normalized=False, special=of == CONTROL)
        if of == CONTROL:
            raw.add_special_tokens([added])
        elif of == USER_DEFINED:
            raw.add_tokens([added])
    first = config["bos_token_id"]
    if fields.get("tokenizer.ggml.add_bos_token", starts) and first is not None:
        name = listed[first]
        raw.post_processor = processors.TemplateProcessing(
            single=[name, "$A"], special_tokens=[(name, first)]
        )
    marks, source = marks_of(raw, {}, config), str(fields.get("tokenizer.chat_template") or "")
    usual = {"bos_token": marks.start, "eos_token": marks.end, "unk_token": marks.unknown}
    named = {name: listed[token] for name, token in usual.items() if token is not None}
    return ForeignTokenizer(raw, marks, Template(source, named) if source else None)


def _byte_level(listed: list[str], merged: list[str], pre: str) -> tokenizers.Tokenizer:
    merges = [(first, second) for first, _, second in (merge.partition(" ") for merge in merged)]
    ids = {token: i for i, token in enumerate(listed)}
    raw = tokenizers.Tokenizer(models.BPE(ids, merges, ignore_merges=pre in WHOLE))
    steps: list[Any] = [pre_tokenizers.ByteLevel(False, use_regex=pre not in SPLITS)]
    if pre in SPLITS:
        steps.insert(0, pre_tokenizers.Split(tokenizers.Regex(SPLITS[pre]), "isolated"))
    elif pre == "smollm":
        steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
    elif pre != "gpt-2":
        known = ", ".join(("gpt-2", "smollm", *SPLITS))
        raise Refusal("gguf_words", value=repr(pre), known=known)
    if pre == "qwen2":
        raw.normalizer = normalizers.NFC()
    raw.pre_tokenizer = pre_tokenizers.Sequence(steps)
    raw.decoder = decoders.ByteLevel()
    return raw


def _metaspace(
    listed: list[str], types: list[int], fields: Mapping[str, Any], unknown: int
) -> tokenizers.Tokenizer:
    """SentencePiece's BPE: the adjacent pair with the best score is merged first."""
    ids = {token: i for i, token in enumerate(listed)}
    scores = fields["tokenizer.ggml.scores"]
    merges = []
    for token, i in ids.items():
        if types[i] == 1:
            halves_of = ((token[:at], token[at:]) for at in range(1, len(token)))
            pairs = [pair for pair in halves_of if pair[0] in ids and pair[1] in ids]
            pairs.sort(key=lambda pair: (ids[pair[0]], ids[pair[1]]))
            merges += [(scores[i], pair) for pair in pairs]
    merges.sort(key=lambda merge: -merge[0])
    raw = tokenizers.Tokenizer(
        models.BPE(
            ids,
            [pair for _, pair in merges],
            unk_token=listed[unknown],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    blanks = normalizers.Replace(" ", "▁")
    begins = fields.get("tokenizer.ggml.add_space_prefix", True)
    steps = [normalizers.Prepend("▁"), blanks] if begins else [blanks]
    raw.normalizer = normalizers.Sequence(steps)
    raw.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return raw
