"""The value that stands for "blocked", in every type of number: what leaks, overflows or is NaN."""

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from explorer.analysis.masks.softmax import masked_softmax, stored

Fill = Literal["ten_thousand", "billion", "lowest", "infinity", "zeroed"]
Way = Literal["filled", "added", "twice"]
Empty = Literal["nan", "uniform", "unmasked", "zero", "other"]
FILLS: tuple[Fill, ...] = get_args(Fill)
WAYS: tuple[Way, ...] = get_args(Way)
DTYPES: tuple[str, ...] = ("float16", "bfloat16", "float32", "float64")
LEAK = 1e-6
"""The weight on blocked keys from which a fill no longer hides them."""
CLOSE = 0.01
"""Weights of a fully masked row closer than this to those without a mask count as the same: a sum
of score and fill has few digits left for the score."""


@dataclass(frozen=True, eq=False)
class Filled:
    """One fill in one type of number.

    `stored` is the value as the type keeps it, NaN where torch refuses it (then nothing else is
    known). `hidden` is the most weight (0 to 1) that a row puts on blocked keys, over rows that
    have an open one; `lost` is how many of those rows are NaN; `rounding` how far their open
    weights are from those in float64 at most. `empty` says what a fully masked row became, and
    `row` [key] are its weights.
    """

    fill: Fill
    dtype: str
    stored: float
    hidden: float = math.nan
    lost: int = 0
    rounding: float = math.nan
    empty: Empty = "other"
    row: Float[np.ndarray, " key"] | None = field(default=None, repr=False)

    @property
    def refused(self) -> bool:
        """Whether torch does not let this value into this type."""
        return math.isnan(self.stored)

    @property
    def hides(self) -> bool:
        """Whether rows with an open key are right: no NaN, and nothing on blocked keys."""
        return not self.refused and not self.lost and self.hidden < LEAK


def value_of(fill: Fill, dtype: torch.dtype) -> float:
    """The number that a fill stands for; that of "zeroed" is the lowest one too."""
    lowest = torch.finfo(dtype).min
    return {"ten_thousand": -1e4, "billion": -1e9, "infinity": -math.inf}.get(fill, lowest)


def hidden_by(scores: Tensor, keep: Tensor, fill: Fill, way: Way) -> Tensor:
    """The pattern [query, key] that a fill leaves; `keep` True = may attend.

    "filled" puts it in place of a blocked score, "added" adds it, "twice" adds it for each of two
    masks, causal and padding say, that block the same cells. "zeroed" is this library's own rule:
    the lowest number first, and after the softmax an exact 0.
    Raises RuntimeError where the type cannot hold the value.
    """
    if fill == "zeroed":
        return masked_softmax(scores, keep)
    value = value_of(fill, scores.dtype)
    if way == "filled":
        return scores.masked_fill(~keep, value).softmax(-1)
    added = torch.zeros_like(scores).masked_fill(~keep, value)
    return (scores + added if way == "added" else scores + (added + added)).softmax(-1)


def fills(
    scores: Float[np.ndarray, "query key"],
    keep: Bool[np.ndarray, "query key"],
    query: int,
    way: Way = "filled",
    lowered: float = 0.0,
) -> tuple[Filled, ...]:
    """Every fill in every type of DTYPES, on the scores of a head; `query` is also fully masked.

    `lowered` is taken from all scores, which changes no weight of a softmax over open keys, but
    brings them closer to the fill. Raises IndexError for a query that is not there.
    """
    exact = torch.tensor(scores).double() - lowered
    mask = torch.tensor(keep)
    return tuple(
        _filled(exact, mask, query, fill, dtype, way) for fill in FILLS for dtype in DTYPES
    )


def _filled(exact: Tensor, keep: Tensor, query: int, fill: Fill, name: str, way: Way) -> Filled:
    dtype: torch.dtype = getattr(torch, name)
    value = stored(value_of(fill, dtype), dtype)
    if math.isnan(value):
        return Filled(fill, name, math.nan)
    scores = exact.to(dtype)
    open_rows = keep.any(-1)
    found = hidden_by(scores, keep, fill, way)[open_rows].double()
    right = masked_softmax(exact, keep)[open_rows]
    lost = found.isnan().any(-1)
    told, mask = found[~lost], keep[open_rows][~lost]
    alone = scores[query][None]
    row = hidden_by(alone, torch.zeros_like(alone, dtype=torch.bool), fill, way)[0]
    return Filled(
        fill=fill,
        dtype=name,
        stored=value,
        hidden=min(1.0, float((told * ~mask).sum(-1).amax())) if len(told) else math.nan,
        lost=int(lost.sum()),
        rounding=float(((told - right[~lost]).abs() * mask).amax()) if len(told) else math.nan,
        empty=_of_empty(row, alone[0]),
        row=row.float().numpy(),
    )


def _of_empty(row: Tensor, scores: Tensor) -> Empty:
    """What a fully masked row became."""
    if row.isnan().any():
        return "nan"
    if not row.any():
        return "zero"
    if (row == row[0]).all():
        return "uniform"
    near = (row - scores.softmax(-1)).abs().max() < CLOSE
    return "unmasked" if near else "other"
