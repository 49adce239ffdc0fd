"""The roles of a tokenizer's special tokens."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tokenizers
from tokenizers import pre_tokenizers


@dataclass(frozen=True, kw_only=True)
class Marks:
    """Ids of the special tokens by role. Each may be None, and one token may have several roles.

    GPT-2 has one token that both starts and ends a text; Marian's decoder starts with the padding
    token; BERT starts with [CLS] and both separates and ends with [SEP].
    """

    pad: int | None = None  # padding of a batch; no real token attends to it
    start: int | None = None  # first token of an output, or of a single-sequence model's text
    end: int | None = None  # last token of a source, an output, or an encoder's text
    mask: int | None = None  # a token to fill in
    separator: int | None = None  # between two texts in one sequence
    unknown: int | None = None  # replaces text that the vocabulary lacks
    further_ends: tuple[int, ...] = ()  # in addition to `end`: of a chat turn, or a word
    source: "Marks | None" = None  # of a translator's source, if it has a vocabulary of its own

    def of(self, stream: str) -> "Marks":
        """The roles in the vocabulary of one sequence, "src" or "tgt"."""
        return (self.source or self) if stream == "src" else self

    def __contains__(self, token: object) -> bool:
        """Whether a token id has one of the single roles; a further end may be an ordinary word."""
        # Called for whole vocabularies: `dataclasses.astuple` would make deep copies.
        return token is not None and token in vars(self).values()

    def ends(self, token: int) -> bool:
        """Whether a generated token ends the output."""
        return token == self.end or token in self.further_ends

    @property
    def all_ends(self) -> tuple[int, ...]:
        """The tokens that end an output."""
        return (*(() if self.end is None else (self.end,)), *self.further_ends)


PAD, START, END, UNKNOWN = range(4)  # the first ids of every tokenizer trained by this project
OUR_MARKS = Marks(pad=PAD, start=START, end=END, unknown=UNKNOWN)


def library_of(content: str) -> tokenizers.Tokenizer:
    """The library's tokenizer of a `tokenizer.json`, without padding and truncation.

    SentencePiece never matches special tokens that a text spells out (Kudo and Richardson 2018),
    but in a Unigram model of the library they are pieces of the vocabulary. So its texts are split
    around the first character of each. Raises a bare Exception on failure.
    """
    library = tokenizers.Tokenizer.from_str(content)
    library.no_padding()
    library.no_truncation()
    added = library.get_added_tokens_decoder().values()
    marks = [token.content for token in added if token.special and len(token.content) > 1]
    if marks and isinstance(library.model, tokenizers.models.Unigram):
        ahead = "|".join(f"{_escaped(mark[0])}(?={_escaped(mark[1:])})" for mark in marks)
        apart = pre_tokenizers.Split(tokenizers.Regex(ahead), "isolated")
        steps = [] if library.pre_tokenizer is None else [library.pre_tokenizer]
        library.pre_tokenizer = pre_tokenizers.Sequence([*steps, apart])
    return library


def _escaped(text: str) -> str:
    """Only the syntax of expressions, unlike `re.escape`: the browser's tokenizer reads it too."""
    return re.sub(r"[\\^$.*+?()[\]{}|]", r"\\\g<0>", text)


_OF_BERT = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}


def flags_of(parts: Mapping[str, Any]) -> dict[str, bool | None]:
    """The flags of a tokenizer_config.json with which a tokenizer.json, as JSON, was written."""
    left, steps = [parts["normalizer"], parts["pre_tokenizer"]], dict[str, dict[str, Any]]()
    while left:
        if (step := left.pop()) is not None:
            steps[step["type"]] = step
            left += step.get("normalizers") or step.get("pretokenizers") or []
    flags: dict[str, bool | None] = {}
    if "BertNormalizer" in steps:
        flags |= {name: steps["BertNormalizer"][key] for name, key in _OF_BERT.items()}
    if "ByteLevel" in steps:
        flags["add_prefix_space"] = steps["ByteLevel"]["add_prefix_space"]
    if "Metaspace" in steps:
        flags["add_prefix_space"] = steps["Metaspace"]["prepend_scheme"] != "never"
    flags |= {"do_lower_case": True} if "Lowercase" in steps else {}
    return flags | ({"keep_accents": False} if "StripAccents" in steps else {})
