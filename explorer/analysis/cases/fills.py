"""Fill values of a mask: -1e4, -1e9, -inf, the lowest value of the dtype; and fully masked rows.

Bugs with one of them each, and the choice: every fill in every dtype on the scores of a head.
"""

import math
from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from explorer.analysis.cases.case import Case, Measured, Result, ResultRow
from explorer.analysis.cases.masks import pattern_case
from explorer.analysis.cases.notation import judge
from explorer.analysis.cases.planting import Pattern, fixed_scores, fixed_table, hidden_mass
from explorer.numerics import masked_softmax, stored
from explorer.runs.trace import Trace
from models.hooks import AttentionSite

FILLS = {
    "ten_thousand": "−1e4",
    "billion": "−1e9",
    "lowest": "finfo.min",
    "infinity": "−∞",
    "zeroed": "masks.fill_zeroed",
}
"""Fills, and how they are written: as in code, or as the text at this key."""
DTYPES = ("float16", "bfloat16", "float32", "float64")
COARSE = 0.01
"""The rounding error of a weight above which a dtype is too coarse for these scores."""
LEAK = 1e-6
"""The weight on blocked keys above which a fill leaks."""
CLOSE = 0.01
"""Weights of a fully masked row closer than this to those without a mask count as the same: a sum
of score and fill has few digits left for the score."""


def hidden_with_ten_thousand(scores: Tensor, keep: Tensor) -> Tensor:
    """-1e4 is an ordinary score: an actual score may be lower."""
    return scores.masked_fill(~keep, -1e4).softmax(-1)


def hidden_with_a_billion(scores: Tensor, keep: Tensor) -> Tensor:
    """-1e9: a fully masked row has equal scores, hence equal weights."""
    return scores.masked_fill(~keep, -1e9).softmax(-1)


def hidden_with_infinity(scores: Tensor, keep: Tensor) -> Tensor:
    """-inf: a fully masked row is 0 / 0."""
    return scores.masked_fill(~keep, float("-inf")).softmax(-1)


def nan_rows(layers: int, pattern_of: Pattern = hidden_with_infinity) -> int:
    """How many of 4 rows contain a NaN after each attention layer, if row 0 is fully masked."""
    return int(_through_layers(layers, pattern_of)[0].isnan().any(-1).sum())


def _through_layers(layers: int, pattern_of: Pattern) -> tuple[Tensor, Tensor]:
    """x [pos, d] after layers x + pattern v, and the weight matrix that all of them share."""
    x, w = fixed_table(4, 6), fixed_table(6, 6, seed=1) / 3
    w.requires_grad_()
    keep = torch.ones(4, 4, dtype=torch.bool)
    keep[0] = False
    for _ in range(layers):
        values = x @ w
        x = x + pattern_of(values @ x.T / math.sqrt(6), keep) @ values
    return x, w


def _nan_gradients(pattern_of: Pattern) -> float:
    """The share of NaN in the gradient of w, for a loss that excludes the fully masked row."""
    x, w = _through_layers(1, pattern_of)
    (grad,) = torch.autograd.grad(x[1:].square().sum(), [w])
    return float(grad.isnan().double().mean())


def _small_fill(way: Pattern, traced: Trace | None = None) -> Measured:
    """Scores below the fill value, where the hidden key wins."""
    scores = torch.tensor([-12000.0, -12001.0, 3.0])[None, None, None]
    keep = torch.tensor([True, True, False])[None, None, None]
    pattern = way(scores, keep)
    return Measured({"hidden_mass": hidden_mass(pattern, keep)}, pattern[0])


def _empty_row(way: Pattern, traced: Trace | None = None) -> Measured:
    """A fully masked row of a pattern, and after it of whole layers."""
    pattern = way(fixed_scores(1, 1, 4, 4), torch.ones(1, 1, 4, 4).tril(-1).bool())
    numbers: dict[Any, float | Tensor] = {
        "empty_row_weight": pattern[0, 0, 0, 0],
        ("nan_rows", "1"): nan_rows(1, way),
        ("nan_rows", "2"): nan_rows(2, way),
        "nan_gradients": _nan_gradients(way),
    }
    return Measured(numbers, pattern[0])


FILL_BUGS = (
    pattern_case("small_fill", "fills", hidden_with_ten_thousand, _small_fill),
    pattern_case("empty_row_nan", "fills", hidden_with_infinity, _empty_row),
    pattern_case("empty_row_uniform", "fills", hidden_with_a_billion, _empty_row),
)


def value_of(fill: str, dtype: torch.dtype) -> float:
    """The numeric value of a fill; for "zeroed" it is the lowest number."""
    lowest = torch.finfo(dtype).min
    return {"ten_thousand": -1e4, "billion": -1e9, "infinity": -math.inf}.get(fill, lowest)


def hidden_by(scores: Tensor, keep: Tensor, fill: str, way: str) -> Tensor:
    """The pattern [query, key] that results from a fill; `keep` True = may attend.

    "filled" replaces blocked scores, "added" adds the fill to them, "twice" adds it once for each
    of two masks that block the same cells, such as causal and padding. "zeroed" is this library's
    own rule: the lowest number before the softmax, and an exact 0 after it.
    Raises RuntimeError if the dtype cannot represent the value.
    """
    if fill == "zeroed":
        return masked_softmax(scores, keep)
    value = value_of(fill, scores.dtype)
    if way == "filled":
        return scores.masked_fill(~keep, value).softmax(-1)
    added = torch.zeros_like(scores).masked_fill(~keep, value)
    return (scores + added if way == "added" else scores + (added + added)).softmax(-1)


def fill(trace: Trace, site: AttentionSite, head: int, row: int, way: str, lowered: int) -> Result:
    """Every fill on the scores of a head."""
    scores = trace.activations[site.hook("scores")][head]
    return filled(scores, trace.mask(site.name)[head], row, way, lowered)


def filled(
    scores: Float[np.ndarray, "query key"],
    keep: Bool[np.ndarray, "query key"],
    query: int,
    way: str = "filled",
    lowered: float = 0.0,
) -> Result:
    """Every fill in every type of DTYPES, in this order; `query` is also fully masked.

    `lowered` is subtracted from all scores, which changes no weight of a softmax over open keys,
    but brings the scores closer to the fill. An outcome covers queries with an open key
    and the masked query. Raises IndexError for a query out of range.
    """
    exact, mask = torch.tensor(scores).double() - lowered, torch.tensor(keep)
    rows = [_filled(exact, mask, query, *pair, way) for pair in product(FILLS, DTYPES)]
    common = rows[: -len(DTYPES)]  # without "zeroed", the last fill
    opens, empties = ([row.outcomes[at][0] for row in common] for at in (0, 1))
    numbers = {
        "count": len(opens),
        "refused": opens.count("refused"),
        "leaks": opens.count("leaks") + opens.count("nan"),
        "nan": empties.count("nan"),
        "spread": sum(empties.count(outcome) for outcome in ("uniform", "unmasked", "uneven")),
    }
    return Result(
        verdict="",
        columns=("stored", "hidden_mass", "rounding"),
        rows=rows,
        why=("reading", "own"),
        numbers=numbers,
        grids=("open", "empty"),
        code=(hidden_by, masked_softmax),
    )


def _filled(exact: Tensor, keep: Tensor, query: int, fill: str, name: str, way: str) -> ResultRow:
    dtype: torch.dtype = getattr(torch, name)
    value = stored(value_of(fill, dtype), dtype)
    if math.isnan(value):
        refused = ("refused", math.nan)
        return ResultRow(FILLS[fill], (math.nan,) * 3, name, (refused, refused))
    scores = exact.to(dtype)
    pattern = hidden_by(scores, keep, fill, way).double()
    judged = judge(pattern, masked_softmax(exact, keep), keep)
    is_open = ("blocks", judged.rounding)
    if judged.lost:
        is_open = ("nan", math.nan)
    elif judged.hidden >= LEAK:
        is_open = ("leaks", judged.hidden)
    elif judged.rounding > COARSE:
        is_open = ("imprecise", judged.rounding)
    alone = scores[query][None]
    empty = hidden_by(alone, torch.zeros_like(alone, dtype=torch.bool), fill, way)[0]
    outcomes = (is_open, (_of_empty(empty, alone[0]), float(empty.nan_to_num().max())))
    return ResultRow(FILLS[fill], (value, judged.hidden, judged.rounding), name, outcomes)


def _of_empty(row: Tensor, scores: Tensor) -> str:
    """The kind of result of a fully masked query."""
    if row.isnan().any():
        return "nan"
    if not row.any():
        return "zero"
    if (row == row[0]).all():
        return "uniform"
    return "unmasked" if (row - scores.softmax(-1)).abs().max() < CLOSE else "uneven"


FILL = Case("fill", "notation", fill)
