"""The patch of a picture as a token, and what embeds it: no model needs more than this module."""

import math
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from models.rows import Token, Tokens, padded

Picture = tuple[int, ...]
"""Height and width of a picture, and of its patches, in pixels (`ModelConfig.picture`)."""


def is_cut(sizes: Picture) -> bool:
    """Whether these are four sizes of which the last two divide the first two."""
    sized = len(sizes) == 4 and all(1 <= each <= 1024 for each in sizes)
    return sized and sizes[0] % sizes[2] == 0 and sizes[1] % sizes[3] == 0


class Patch(int):
    """A patch of a picture as a token: an int that is no id, the same for the same `pixels`."""

    pixels: tuple[int, ...]  # grey levels, 0 to 255

    def __new__(cls, pixels: Iterable[int]) -> "Patch":
        levels = tuple(pixels)
        code = int.from_bytes(blake2b(bytes(levels), digest_size=7).digest())
        self = super().__new__(cls, -1 - code)
        self.pixels = levels
        return self

    def __getnewargs__(self) -> tuple[tuple[int, ...]]:  # type: ignore[override]
        return (self.pixels,)


def as_tokens(ids: Iterable[Any]) -> tuple[int, ...]:
    """Tokens from the `tolist()` of a row: ids, or patches."""
    return tuple(Patch(each) if isinstance(each, list) else each for each in ids)


def as_tensor(rows: Sequence[Sequence[Token]]) -> Tokens:
    """Rows of the same length as a batch, [batch, pos] or, of patches, [batch, pos, pixels]."""
    return padded(rows)[0]


class Patches(nn.Linear):
    """What embeds the patches of a picture: a linear map of their grey levels, 0 to 255."""

    def __init__(self, picture: Picture, d_model: int) -> None:
        super().__init__(math.prod(picture[2:]), d_model)

    def forward(self, patches: Tokens) -> Float[Tensor, "batch pos d_model"]:
        return super().forward(patches.to(self.weight.dtype) / 255)
