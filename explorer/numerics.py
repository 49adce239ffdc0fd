"""Softmax under a mask as it should be, and what a type of numbers makes of a fill value."""

import math

import torch
from torch import Tensor


def masked_softmax(scores: Tensor, keep: Tensor) -> Tensor:
    """Hide what may not be seen, then softmax; a row that may see nothing is all zeros."""
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~keep, lowest).softmax(-1).masked_fill(~keep, 0.0)


def stored(fill: float, dtype: torch.dtype) -> float:
    """The value in a tensor of this type after `masked_fill` with `fill`; NaN: it is refused."""
    try:
        return float(torch.zeros(1, dtype=dtype).masked_fill(torch.tensor([True]), fill))
    except RuntimeError:
        return math.nan
