"""The words of a token sequence, and the share of a word that each token of another one covers.

A word is a run of letters and digits between spaces and punctuation, however many tokens it was
split into. Chinese, Japanese and Thai are written without spaces: there a token is a word, except
that tokens which only together form one character are merged. Two models split a text differently,
so words are byte ranges in the text without spaces, which are the same for both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
from jaxtyping import Float, Int

from explorer.library import LoadedModel
from models.rows import Stream

APOSTROPHES = "'’"
UNSPACED = (
    ("\u0e00", "\u0eff"),  # Thai, Lao
    ("\u1000", "\u109f"),  # Burmese
    ("\u1780", "\u17ff"),  # Khmer
    ("\u2e80", "\u9fff"),  # Chinese, Japanese
    ("\uf900", "\ufaff"),
    ("\uff66", "\uff9f"),
    ("\U00020000", "\U0003ffff"),
)
"""Scripts that put no spaces between words."""


@dataclass(frozen=True)
class WordRow:
    """The words of a text: `labels`, and the byte range [start, end) of each in `letters`, the text
    as UTF-8 without spaces."""

    labels: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    letters: bytes

    def __len__(self) -> int:
        return len(self.labels)


def token_spans(
    loaded: LoadedModel, tokens: Sequence[int], stream: Stream = "tgt"
) -> tuple[tuple[tuple[int, int], ...], bytes]:
    """The byte range [start, end) of each token in the text's bytes without spaces, and these
    bytes.

    A special token has an empty span. The exception is the unknown token, which represents a part
    of the text and gets the bytes of its name.
    """
    spans, letters = [], b""
    for own in _texts(loaded, tokens, stream):
        own = own.replace(b" ", b"")
        spans.append((len(letters), len(letters) + len(own)))
        letters += own
    return tuple(spans), letters


def words_in(loaded: LoadedModel, tokens: Sequence[int], stream: Stream = "tgt") -> WordRow:
    """The words of a sequence's tokens; special tokens and spaces are not words.

    Of a model that reads pictures, each patch and each character is a word.
    """
    after_blank = _after_blank(b"".join(_texts(loaded, tokens, stream)))
    spans, letters = token_spans(loaded, tokens, stream)
    kept: list[tuple[int, int]] = []
    for start, end in spans:
        if start == end:
            continue
        joined = start not in after_blank and not loaded.config.picture
        if kept and joined and _goes_on(letters, kept[-1][0], start, end):
            kept[-1] = (kept[-1][0], end)
        else:
            kept.append((start, end))
    labels = tuple(letters[start:end].decode("utf-8", "replace") for start, end in kept)
    return WordRow(labels, tuple(kept), letters)


def _texts(loaded: LoadedModel, tokens: Sequence[int], stream: Stream) -> list[bytes]:
    """The text of each token; of a patch, its label."""
    if tokens and tokens[0] < 0:
        return [label.encode() for label in loaded.str_tokens(tokens)]
    tokenizer, unknown = loaded.tokenizer.of(stream), loaded.marks.of(stream).unknown
    return [
        b"" if tokenizer.is_special(token) and token != unknown else tokenizer.bytes_of(token)
        for token in tokens
    ]


def _after_blank(text: bytes) -> set[int]:
    """The positions in a text without spaces that were preceded by a space."""
    starts, place = set(), 0
    for byte in text:
        if byte == 0x20:
            starts.add(place)
        else:
            place += 1
    return starts


def _goes_on(letters: bytes, first: int, start: int, end: int) -> bool:
    """Whether the token at [start, end) continues the word that began at `first`."""
    if letters[start] & 0xC0 == 0x80:  # in the middle of a character
        return True
    before = letters[first:start].decode("utf-8", "replace")[-2:]
    after = letters[start : start + 8].decode("utf-8", "ignore")[:2]
    if before[-1:] in APOSTROPHES:
        return len(before) == 2 and _joins(before[0]) and _joins(after[:1])
    if after[:1] in APOSTROPHES:
        return _joins(before[-1:]) and _joins(after[1:2])
    return _joins(before[-1:]) and _joins(after[:1])


def _joins(character: str) -> bool:
    """Whether a character joins its neighbours in a word: letters and digits of spaced scripts."""
    if not character or any(low <= character <= high for low, high in UNSPACED):
        return False
    return character.isalnum() or "\u0300" <= character <= "\u036f"


def shares(
    words: WordRow, spans: Sequence[tuple[int, int]], letters: bytes
) -> Float[np.ndarray, "word token"]:
    """The share of each token's bytes that lies in each word; 0 for special tokens.

    `spans` and `letters` are `token_spans` of the same text, tokenized by any model. If a tokenizer
    changed the text, for example to lower case, the common parts are matched first.
    """
    word_of = np.full(len(words.letters) + 1, -1)  # the last entry is for index -1: no position
    for word, (first, last) in enumerate(words.spans):
        word_of[first:last] = word
    of_byte = word_of[_places(letters, words.letters)]
    fractions = np.zeros((len(words), len(spans)))
    for token, (start, end) in enumerate(spans):
        for word in of_byte[start:end]:
            if word >= 0:
                fractions[word, token] += 1 / (end - start)
    return fractions


def _places(letters: bytes, others: bytes) -> Int[np.ndarray, " byte"]:
    """The position of each byte in `others`; -1 if it has none."""
    if letters == others:
        return np.arange(len(letters))
    positions = np.full(len(letters), -1)
    for at, there, size in SequenceMatcher(
        None, letters.lower(), others.lower(), autojunk=False
    ).get_matching_blocks():
        positions[at : at + size] = np.arange(there, there + size)
    return positions
