"""The sizes of a picture, and what embeds its patches: no model needs more than this module."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.rows import Tokens

Picture = tuple[int, ...]
"""Height and width of a picture, and of its patches, in pixels; then its channels, unless it is
grey (`ModelConfig.picture`)."""


def is_cut(sizes: Picture) -> bool:
    """Whether these are sizes of a picture, which its patches divide."""
    sized = len(sizes) in (4, 5) and all(1 <= size <= 1024 for size in sizes)
    return sized and sizes[0] % sizes[2] == 0 and sizes[1] % sizes[3] == 0


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
