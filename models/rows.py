"""A batch of token ids, the input of models of any family, and which of the tokens are real."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from operator import itemgetter, methodcaller
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from models.marks import Marks

Stream = Literal["src", "tgt"]
Tokens = Int[Tensor, "batch pos *pixels"]  # ids, or the grey levels of the patches of a picture
Token = Any  # an id, a patch with its `pixels`, or an array of these
Valid = Bool[Tensor, "batch pos"]  # True at real tokens, False at padding


class PatchToken(int):
    """A patch of a picture as a token: an int that is no id, the same for the same `pixels`.

    Negative pixels mean a learned token that is no patch: -1 is the first one, the class token.
    """

    pixels: tuple[int, ...]  # levels of each pixel, 0 to 255; of colours, channel by channel

    def __new__(cls, pixels: Iterable[int]) -> "PatchToken":
        levels = tuple(pixels)
        code = levels[0]
        if code >= 0:
            code = -1000 - int.from_bytes(blake2b(bytes(levels), digest_size=7).digest())
        self = super().__new__(cls, code)
        self.pixels = levels
        return self

    def __getnewargs__(self) -> tuple[tuple[int, ...]]:  # type: ignore[override]
        return (self.pixels,)


@dataclass(frozen=True, eq=False)
class Rows:
    """Token ids of a batch; `…_valid` is True at real tokens, False at padding (None: no padding).

    `tgt` is the sequence that the logits belong to (the only one in a decoder-only or encoder-only
    model); `src` is the source of a translator. In a cached step `tgt` holds the new tokens only,
    and `tgt_valid` covers the cached tokens followed by the new ones.
    """

    tgt: Int[Tensor, "batch tgt *tgt_pixels"]
    tgt_valid: Bool[Tensor, "batch past_and_tgt"] | None = None
    src: Int[Tensor, "batch src *pixels"] | None = None
    src_valid: Bool[Tensor, "batch src"] | None = None

    @classmethod
    def of(
        cls,
        tgt: Sequence[Sequence[Token]],
        src: Sequence[Sequence[Token]] | None = None,
        marks: Marks | None = None,
        left: int = 0,
        right: int = 0,
    ) -> "Rows":
        """Pad lists of token ids as `padded` does, with the padding token of `marks`; for a
        single-sequence model `src` is None, or its rows are empty."""
        marks = marks or Marks()
        source = padded(src, marks.of("src").pad, left, right) if src and any(map(len, src)) else ()
        return cls(*padded(tgt, marks.pad, left, right), *source)

    def __len__(self) -> int:
        return len(self.tgt)

    def tokens(self, stream: Stream) -> Tokens:
        """The ids of one sequence. Raises ValueError for "src" if there is no source."""
        tokens = self.src if stream == "src" else self.tgt
        if tokens is None:
            raise ValueError("these rows have no source: their model reads a single text")
        return tokens

    def valid(self, stream: Stream) -> Bool[Tensor, "batch pos"]:
        """Which tokens of one sequence are real. Raises ValueError as `tokens` does."""
        tokens = self.tokens(stream)
        valid = self.src_valid if stream == "src" else self.tgt_valid
        return tokens.new_ones(tokens.shape[:2], dtype=torch.bool) if valid is None else valid

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Rows":
        held = {name: tensor for name, tensor in vars(self).items() if tensor is not None}
        return Rows(**{name: change(tensor) for name, tensor in held.items()})

    def select(self, rows: Sequence[int] | Tensor) -> "Rows":
        """These rows of the batch, in this order; a row may be repeated."""
        index = torch.as_tensor(rows, device=self.tgt.device)
        return self._each(itemgetter(index))

    def to(self, device: torch.device) -> "Rows":
        """The same rows on another device."""
        return self._each(methodcaller("to", device))


def padded(
    rows: Sequence[Sequence[Token]], pad_id: int | None = None, left: int = 0, right: int = 0
) -> tuple[Tokens, Valid]:
    """Pad rows of ids on the right to the longest, plus `left` and `right`: (ids, valid).

    Without a `pad_id`, padding is 0; models ignore it, since `valid` is False there.
    """
    width = left + max(map(len, rows)) + right
    held = [np.array([getattr(token, "pixels", token) for token in ids], np.int64) for ids in rows]
    tokens = torch.full((len(rows), width, *held[0].shape[1:]), 0 if pad_id is None else pad_id)
    valid = torch.zeros(len(rows), width, dtype=torch.bool)
    for row, ids in enumerate(held):
        tokens[row, left : left + len(ids)] = torch.from_numpy(ids)
        valid[row, left : left + len(ids)] = True
    return tokens, valid


def as_tokens(ids: Iterable[Any]) -> tuple[int, ...]:
    """Tokens from the `tolist()` of a row: ids, or patches."""
    return tuple(PatchToken(token) if isinstance(token, list) else token for token in ids)


def as_tensor(rows: Sequence[Sequence[Token]]) -> Tokens:
    """Rows of the same length as a batch, [batch, pos] or, of patches, [batch, pos, pixels]."""
    return padded(rows)[0]
