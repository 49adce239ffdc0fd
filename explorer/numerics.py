"""A correct masked softmax, and the value of a mask's fill in a given data type."""

import math

import torch
from torch import Tensor


def masked_softmax(scores: Tensor, keep: Tensor) -> Tensor:
    """Softmax over the keys that may be seen; a fully masked row is all zeros."""
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~keep, lowest).softmax(-1).masked_fill(~keep, 0.0)


def stored(fill: float, dtype: torch.dtype) -> float:
    """The value in a tensor of this type after `masked_fill` with `fill`; NaN if torch refuses."""
    try:
        return float(torch.zeros(1, dtype=dtype).masked_fill(torch.tensor([True]), fill))
    except RuntimeError:
        return math.nan
