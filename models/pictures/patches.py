"""The patch of a picture as a token, and what embeds it: no model needs more than this module."""

import math
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.rows import Token, Tokens, padded

Picture = tuple[int, ...]
"""Height and width of a picture, and of its patches, in pixels; then its channels, unless it is
grey (`ModelConfig.picture`)."""


def is_cut(sizes: Picture) -> bool:
    """Whether these are sizes of a picture, which its patches divide."""
    sized = len(sizes) in (4, 5) and all(1 <= size <= 1024 for size in sizes)
    return sized and sizes[0] % sizes[2] == 0 and sizes[1] % sizes[3] == 0


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


def as_tokens(ids: Iterable[Any]) -> tuple[int, ...]:
    """Tokens from the `tolist()` of a row: ids, or patches."""
    return tuple(PatchToken(token) if isinstance(token, list) else token for token in ids)


def as_tensor(rows: Sequence[Sequence[Token]]) -> Tokens:
    """Rows of the same length as a batch, [batch, pos] or, of patches, [batch, pos, pixels]."""
    return padded(rows)[0]


class Patches(nn.Linear):
    """Embeds patches by a linear map of their levels, 0 to 255, and `n_marks` learned tokens."""

    def __init__(self, picture: Picture, d_model: int, n_marks: int = 0) -> None:
        super().__init__(math.prod(picture[2:]), d_model)
        self.marks = nn.Parameter(torch.randn(n_marks, d_model)) if n_marks else None

    def forward(self, patches: Tokens) -> Float[Tensor, "batch pos d_model"]:
        x = super().forward(patches.clamp(min=0).to(self.weight.dtype) / 255)
        if self.marks is None:
            return x
        marks = -1 - patches[..., 0]
        return torch.where(marks[..., None] >= 0, self.marks[marks.clamp(min=0)], x)
