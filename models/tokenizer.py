"""Text to tokens and back: a thin wrapper around byte-pair encoding of the `tokenizers` library.

The languages of a model share one vocabulary (Sennrich et al. 2016, joint BPE), or the source of a
translator has its own. A blank is part of the word after it, written "▁". A text in an alphabetic
script gets a leading blank, so that a word is the same token at the start and in the middle;
Chinese gets none.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import tokenizers

from models.marks import Marks
from models.refusals import Refusal
from models.rows import Stream

SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")
MASK = "[MASK]"  # typed by users for a token to fill in
MARK_NAMES: dict[str, tuple[str, ...]] = {
    "pad": ("<pad>", "[PAD]"),
    "start": ("<s>", "[CLS]", "<bos>", "<|begin_of_text|>", "<|endoftext|>"),
    "end": ("</s>", "[SEP]", "<eos>", "<|end_of_text|>", "<|endoftext|>"),
    "mask": ("<mask>", "[MASK]"),
    "separator": ("[SEP]",),
    "unknown": ("<unk>", "[UNK]"),
}
BLANK = "▁"

Piece = tuple[int, tuple[int, int]]  # a token id and its span of characters in the text
PANICS = "pyo3_runtime"  # the module of panics in the library's Rust code, which are no Exceptions


@contextmanager
def refusing(key: str, **values: str) -> Iterator[None]:
    """Convert exceptions of the `tokenizers` library, including panics, into a Refusal.

    The message `key` gets the library's message as `reason`. Refusals and OSErrors pass through.
    """
    try:
        yield
    except OSError:
        raise
    except BaseException as error:
        # The library raises only builtin exceptions and panics; others already have a message.
        builtin = isinstance(error, Exception) and type(error).__module__ == "builtins"
        if not builtin and type(error).__module__ != PANICS:
            raise
        raise Refusal(key, reason=error, **values) from error


def of_json(path: Path) -> tokenizers.Tokenizer:
    """Load the library's tokenizer from `tokenizer.json`. Raises a bare Exception on failure."""
    return tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))


class Tokenizer:
    """Encodes without special tokens; a model's `with_marks` adds those that it expects.

    `marks` gives the roles of the special tokens. By default they are found by their usual names
    (`MARK_NAMES`); a role without a token of these names is None. `source` is the tokenizer of a
    translator's source, if the source has a vocabulary of its own.
    """

    source: "Tokenizer | None" = None

    def __init__(self, tokenizer: tokenizers.Tokenizer, marks: Marks | None = None) -> None:
        self._tokenizer = tokenizer
        self.marks = marks_by_name(tokenizer) if marks is None else marks
        added = tokenizer.get_added_tokens_decoder()
        self._special = {token for token, entry in added.items() if entry.special}
        tokenizer.encode_special_tokens = True  # "</s>" typed by a user is text

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read a `tokenizer.json`. Raises ValueError, with the reason, if it is invalid."""
        with refusing("no_tokenizer", file=path.name):
            return cls(of_json(path))

    def reading(self, source: "Tokenizer") -> None:
        """Read the source of a translator with a tokenizer and a vocabulary of its own."""
        self.source, self.marks = source, replace(self.marks, source=source.marks)

    def of(self, stream: Stream) -> "Tokenizer":
        """The tokenizer of one sequence."""
        return (self.source or self) if stream == "src" else self

    def save(self, path: Path) -> None:
        """Write a `tokenizer.json` that `load` can read."""
        path.write_text(self.to_json(), encoding="utf-8")

    def to_json(self) -> str:
        """The content of its `tokenizer.json`."""
        return str(self._tokenizer.to_str(pretty=True))

    def is_special(self, token: int) -> bool:
        """Whether a token is special: one of `marks`, or flagged as special by the tokenizer."""
        return token in self._special or token in self.marks

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special ones included."""
        return self._tokenizer.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without special tokens, even if the text spells one out.

        The only exception is the mask token, typed as "[MASK]" or by its name in the tokenizer.
        Raises Refusal, naming the characters, if the tokenizer cannot encode the text.
        """
        parts = self._between_masks(text)
        if len(parts) == 1:
            return self._tokens(text)
        ids: list[int] = []
        for part in parts:  # strip blanks before a mask; blanks before a word belong to it
            ids += [self.marks.mask, *(self._tokens(part.rstrip()) if part.strip() else [])]  # type: ignore[list-item]
        return ids[1:]  # no mask before the first part

    def encoded(self, text: str) -> list[int]:
        """As `encode`; empty if that raises Refusal."""
        with suppress(Refusal):
            return self.encode(text)
        return []

    def has_mask(self, text: str) -> bool:
        """Whether a text contains a mask token."""
        return len(self._between_masks(text)) > 1

    def _between_masks(self, text: str) -> list[str]:
        """A text split at its mask tokens."""
        mask = self.marks.mask
        if mask is None:
            return [text]
        return re.split("|".join(map(re.escape, {MASK, self.piece(mask)})), text)

    def _tokens(self, text: str) -> list[int]:
        """The ids of a text without masks. Raises Refusal."""
        with refusing("text_fails"):
            return [token for token, _ in self._cut(text)]

    def _cut(self, text: str) -> list[Piece]:
        """Tokenize a text without masks with the library."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return list(zip(encoding.ids, encoding.offsets, strict=True))

    def renderings(self, text: str) -> list[str]:
        """All texts that show the same: a word to be drawn in every typeface."""
        return [text]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without the blank before its first word; special tokens are skipped."""
        return self._decoded(ids).strip()

    def _decoded(self, ids: Sequence[int]) -> str:
        with suppress(Refusal), refusing("text_fails"):
            return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))
        # If the decoder fails, join the texts of the single tokens.
        written = (self.bytes_of(token) for token in ids if not self.is_special(token))
        return b"".join(written).decode("utf-8", "replace")

    def piece(self, token: int) -> str:
        """The tokenizer's string for a token."""
        return self._tokenizer.id_to_token(token) or f"<{token}>"  # an id without a token

    def bytes_of(self, token: int) -> bytes:
        """The text of a token in bytes (UTF-8), its blank included."""
        return self.piece(token).replace(BLANK, " ").encode("utf-8", "replace")

    def unknown(self, text: str) -> list[str]:
        """The distinct characters of a text that the vocabulary lacks, in order.

        The text is asked as a whole: a letter and its accent may be one token.
        """
        lacked: dict[str, None] = {}
        for part in self._between_masks(text):
            with suppress(Refusal), refusing("text_fails"):
                spans = [span for token, span in self._cut(part) if token == self.marks.unknown]
                lacked |= dict.fromkeys(c for span in spans for c in part[slice(*span)])
        return [c for c in lacked if not c.isspace() and not self.drops(c)]

    def drops(self, text: str) -> bool:
        """Whether encoding a text gives no unknown token."""
        return self.marks.unknown is None or self.marks.unknown not in self.encoded(text)


def marks_by_name(tokenizer: tokenizers.Tokenizer) -> Marks:
    """The roles of a tokenizer's special tokens: for each role, the first usual name it has."""
    ids: dict[str, Any] = {
        mark: next((i for name in names if (i := tokenizer.token_to_id(name)) is not None), None)
        for mark, names in MARK_NAMES.items()
    }
    return Marks(**ids)


def few(n_tokens: int, vocab_size: int) -> bool:
    """Whether a tokenizer covers less than half of a model's vocabulary, and may be a wrong one.

    A few unused ids are common, as padding to a round size; and a small tokenizer may have been
    trained for a model with a larger default vocabulary, so this is not an error.
    """
    return 2 * n_tokens < vocab_size
