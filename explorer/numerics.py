"""Softmax, a mask's fill in a given data type, and what chance does to many."""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

MARGIN = 1.5
"""Margin over all draws by chance, in standard deviations of their best. Beating n draws happens
by chance in 1 of n + 1 cases on average; with the margin, it should hold in any hundred cases."""


def masked_softmax(scores: Tensor, keep: Tensor) -> Tensor:
    """Softmax over the keys that may be seen; a fully masked row is all zeros."""
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~keep, lowest).softmax(-1).masked_fill(~keep, 0.0)


def softmax(scores: Float[np.ndarray, "*rows key"]) -> Float[np.ndarray, "*rows key"]:
    """Softmax of each row in float64; -inf gives 0."""
    powers = np.exp(scores.astype(np.float64) - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def log_softmax(logits: Float[np.ndarray, "*rows vocab"]) -> Float[np.ndarray, "*rows vocab"]:
    """The logarithm of the softmax of each row."""
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def stored(fill: float, dtype: torch.dtype) -> float:
    """The value in a tensor of this type after `masked_fill` with `fill`; NaN if torch refuses."""
    try:
        return float(torch.zeros(1, dtype=dtype).masked_fill(torch.tensor([True]), fill))
    except RuntimeError:
        return math.nan


def beats(best: float, by_chance: Float[np.ndarray, " draw"]) -> bool:
    """Whether the best of many exceeds the best of as many in every draw by at least MARGIN.

    A permutation test of the maximum: Phipson & Smyth 2010, "Permutation P-values Should Never Be
    Zero"; Westfall & Young 1993, "Resampling-Based Multiple Testing", for the maximum.
    """
    return bool(best > by_chance.max() + MARGIN * by_chance.std())


def student(rate: float, freedom: int) -> float:
    """The |t| that Student's distribution exceeds with probability `rate`, for >= 1 degrees of
    freedom: with t = sqrt(freedom) tan(a), the density of a is cos(a)^(freedom - 1)."""
    angle = np.linspace(0.0, np.pi / 2, 100_001)
    density = np.cos(angle) ** (freedom - 1)
    below = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return math.sqrt(freedom) * math.tan(np.interp(1 - rate, below / below[-1], angle))
