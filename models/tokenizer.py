"""Text to tokens and back: byte-pair encoding by the `tokenizers` library, in a thin class.

One vocabulary for all languages of a model (Sennrich et al. 2016, joint BPE). A blank is part of
the word after it, written "▁"; a text in an alphabetic script is treated as if a blank came first,
so that a word is the same token at the start and in the middle. Chinese gets none.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import tokenizers

from models.marks import Marks
from models.refusals import Refusal

SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")
MASK = "[MASK]"  # how a user types a token to be filled in
MARK_NAMES: dict[str, tuple[str, ...]] = {
    "pad": ("<pad>", "[PAD]"),
    "start": ("<s>", "[CLS]", "<bos>", "<|begin_of_text|>", "<|endoftext|>"),
    "end": ("</s>", "[SEP]", "<eos>", "<|end_of_text|>", "<|endoftext|>"),
    "mask": ("<mask>", "[MASK]"),
    "separator": ("[SEP]",),
    "unknown": ("<unk>", "[UNK]"),
}
BLANK = "▁"

Piece = tuple[int, tuple[int, int]]
"""A token, and the characters of the text that it was cut from."""

PANICS = "pyo3_runtime"
"""The module of a panic in the library's Rust code, which is no Exception."""


@contextmanager
def refusing(key: str, **values: str) -> Iterator[None]:
    """Turn whatever the `tokenizers` library raises into a Refusal, panics included.

    `key` takes the library's own words as `reason`. Refusals and OSErrors pass through.
    """
    try:
        yield
    except OSError:
        raise
    except BaseException as error:
        # The library raises bare Exception and Python's own; other classes have words already.
        builtin = isinstance(error, Exception) and type(error).__module__ == "builtins"
        if not builtin and type(error).__module__ != PANICS:
            raise
        raise Refusal(key, reason=error, **values) from error


Read = Callable[[Path], Any]
_read: ContextVar[Read | None] = ContextVar("read", default=None)


@contextmanager
def reading_by(read: Read) -> Iterator[None]:
    """Make tokenizers of files by `read` inside the block, which may do so in another process.

    It returns what has the methods of a `tokenizers.Tokenizer` that are used here.
    """
    token = _read.set(read)
    try:
        yield
    finally:
        _read.reset(token)


def made_of(path: Path, usual: Read) -> Any:
    """The library's tokenizer of a file, by `usual` if no block says otherwise."""
    return (_read.get() or usual)(path)


def of_json(path: Path) -> tokenizers.Tokenizer:
    """The library's tokenizer of a `tokenizer.json`. Raises bare Exception as the library does."""
    return tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))


class Tokenizer:
    """Encodes without special tokens; a model's `with_marks` adds those that it expects.

    `marks` says what the special tokens are for. Where it is not given, it is read off the names
    that tokenizers usually give them (`MARK_NAMES`); a mark that has none of its names is absent.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer, marks: Marks | None = None) -> None:
        self._tokenizer = tokenizer
        self.marks = marks_by_name(tokenizer) if marks is None else marks
        self._special = {
            token for token, added in tokenizer.get_added_tokens_decoder().items() if added.special
        }
        tokenizer.encode_special_tokens = True  # "</s>" typed by a user is text, not an end mark

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read a `tokenizer.json`. Raises ValueError, with the reason, when it is not one."""
        with refusing("no_tokenizer", file=path.name):
            return cls(made_of(path, of_json))

    def save(self, path: Path) -> None:
        """Write `tokenizer.json`, from which `load` makes the same tokenizer."""
        path.write_text(self._tokenizer.to_str(pretty=True), encoding="utf-8")

    def is_special(self, token: int) -> bool:
        """Whether a token is no part of a text: a mark, or another that the tokenizer set apart."""
        return token in self._special or token in self.marks

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special ones included."""
        return self._tokenizer.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without special tokens, even where the text spells one out.

        The one exception is a mask: it is typed as "[MASK]" or as the tokenizer calls it.
        Raises Refusal for a text that the tokenizer cannot encode, naming the characters.
        """
        parts = self._between_masks(text)
        if len(parts) == 1:
            return self._tokens(text)
        ids: list[int] = []
        for part in parts:  # a blank before a word is part of it, one before a mask not
            ids += [self.marks.mask, *(self._tokens(part.rstrip()) if part.strip() else [])]  # type: ignore[list-item]
        return ids[1:]  # each mask stands before a part, except the first one

    def encoded(self, text: str, output: bool = False) -> list[int]:
        """As `encode`, or `encode_output`; no ids where that raises Refusal."""
        with suppress(Refusal):
            return self.encode_output(text) if output else self.encode(text)
        return []

    def has_mask(self, text: str) -> bool:
        """Whether a text holds a mask token to be filled in."""
        return len(self._between_masks(text)) > 1

    def _between_masks(self, text: str) -> list[str]:
        """What is typed before, between and after the mask tokens of a text."""
        mask = self.marks.mask
        if mask is None:
            return [text]
        return re.split("|".join(map(re.escape, {MASK, self.piece(mask)})), text)

    def _tokens(self, text: str) -> list[int]:
        """The ids of a text without masks. Raises Refusal."""
        with refusing("text_fails"):
            return [token for token, _ in self._cut(text)]

    def _cut(self, text: str) -> list[Piece]:
        """A text without masks as the library cuts it."""
        found = self._tokenizer.encode(text, add_special_tokens=False)
        return list(zip(found.ids, found.offsets, strict=True))

    def encode_output(self, text: str) -> list[int]:
        """`encode` for a text that a translator is to write, whose pieces may be others."""
        return self.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; special tokens are left out."""
        with suppress(Refusal), refusing("text_fails"):
            text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
            return text.strip()
        # Its decoder fails on these tokens; their own texts are known all the same.
        written = (self.bytes_of(each) for each in ids if not self.is_special(each))
        return b"".join(written).decode("utf-8", "replace").strip()

    def piece(self, token: int) -> str:
        """What the tokenizer calls a token."""
        return self._tokenizer.id_to_token(token) or f"<{token}>"  # ids that no token has

    def bytes_of(self, token: int) -> bytes:
        """The text of a token in bytes (UTF-8), its blank included."""
        return self.piece(token).replace(BLANK, " ").encode("utf-8", "replace")

    def unknown(self, text: str) -> list[str]:
        """The different characters of a text that the vocabulary lacks, in order."""
        parts = "".join(self._between_masks(text))
        characters = dict.fromkeys(c for c in parts if not c.isspace())
        return [c for c in characters if not self.drops(c)]

    def drops(self, text: str) -> bool:
        """Whether no part of a text is read as the unknown token."""
        return self.marks.unknown is None or self.marks.unknown not in self.encoded(text)


def marks_by_name(tokenizer: tokenizers.Tokenizer) -> Marks:
    """The marks of a tokenizer by the usual names of its tokens: the first name that it has."""
    ids: dict[str, Any] = {
        mark: next((i for name in names if (i := tokenizer.token_to_id(name)) is not None), None)
        for mark, names in MARK_NAMES.items()
    }
    return Marks(**ids)
