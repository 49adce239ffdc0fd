"""Fill values for blocked scores in every dtype: which leak, overflow or give NaN."""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from explorer.exhibits import Exhibit, View, block as b, picking, saying
from explorer.exhibits.masks.choices import MOST_LOWERED, WAYS, MasksChoices, Way
from explorer.figures.outcomes import Level, outcomes
from explorer.numbers import digits, fixed, percent
from explorer.numerics import masked_softmax, stored
from explorer.runs.trace import Trace
from models.hooks import AttentionSite

Fill = Literal["ten_thousand", "billion", "lowest", "infinity", "zeroed"]
Empty = Literal["nan", "uniform", "unmasked", "zero", "other"]
FILLS: tuple[Fill, ...] = get_args(Fill)
DTYPES: tuple[str, ...] = ("float16", "bfloat16", "float32", "float64")
VALUES: dict[Fill, str] = {
    "ten_thousand": "−1e4",
    "billion": "−1e9",
    "lowest": "finfo.min",
    "infinity": "−∞",
}
"""The fills as they are written; the rule "zeroed" has words."""
COARSE = 0.01
"""The rounding error of a weight above which a dtype is too coarse for these scores."""
LEVEL_OF: dict[Empty, Level] = {
    "nan": "loud",
    "uniform": "silent",
    "unmasked": "silent",
    "other": "silent",
    "zero": "good",
}
LEAK = 1e-6
"""The weight on blocked keys above which a fill leaks."""
CLOSE = 0.01
"""Weights of a fully masked row closer than this to those without a mask count as the same: a sum
of score and fill has few digits left for the score."""


@dataclass(frozen=True, eq=False)
class FillResult:
    """One fill in one dtype.

    `stored` is the value in that dtype, NaN if torch rejects it (then the other fields are not
    set). For queries with an open key: `hidden` is the largest weight (0 to 1) on blocked keys,
    `lost` the number of NaN rows, `rounding` the largest difference of open weights from float64.
    For a fully masked query: `empty` is the kind of result, and `row` [key] are its weights.
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
        """Whether torch rejects this value in this dtype."""
        return math.isnan(self.stored)

    @property
    def hides(self) -> bool:
        """Whether queries with an open key are correct: no NaN, no weight on blocked keys."""
        return not self.refused and not self.lost and self.hidden < LEAK


def value_of(fill: Fill, dtype: torch.dtype) -> float:
    """The numeric value of a fill; for "zeroed" it is the lowest number."""
    lowest = torch.finfo(dtype).min
    return {"ten_thousand": -1e4, "billion": -1e9, "infinity": -math.inf}.get(fill, lowest)


def hidden_by(scores: Tensor, keep: Tensor, fill: Fill, way: Way) -> Tensor:
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


def fills(
    scores: Float[np.ndarray, "query key"],
    keep: Bool[np.ndarray, "query key"],
    query: int,
    way: Way = "filled",
    lowered: float = 0.0,
) -> tuple[FillResult, ...]:
    """Every fill in every type of DTYPES, on the scores of a head; `query` is also fully masked.

    `lowered` is subtracted from all scores, which changes no weight of a softmax over open keys,
    but brings the scores closer to the fill. Raises IndexError for a query out of range.
    """
    exact = torch.tensor(scores).double() - lowered
    mask = torch.tensor(keep)
    return tuple(
        _filled(exact, mask, query, fill, dtype, way) for fill in FILLS for dtype in DTYPES
    )


def _filled(exact: Tensor, keep: Tensor, query: int, fill: Fill, name: str, way: Way) -> FillResult:
    dtype: torch.dtype = getattr(torch, name)
    value = stored(value_of(fill, dtype), dtype)
    if math.isnan(value):
        return FillResult(fill, name, math.nan)
    scores = exact.to(dtype)
    open_rows = keep.any(-1)
    found = hidden_by(scores, keep, fill, way)[open_rows].double()
    right = masked_softmax(exact, keep)[open_rows]
    lost = found.isnan().any(-1)
    told, mask = found[~lost], keep[open_rows][~lost]
    alone = scores[query][None]
    row = hidden_by(alone, torch.zeros_like(alone, dtype=torch.bool), fill, way)[0]
    return FillResult(
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
    """The kind of result of a fully masked query."""
    if row.isnan().any():
        return "nan"
    if not row.any():
        return "zero"
    if (row == row[0]).all():
        return "uniform"
    near = (row - scores.softmax(-1)).abs().max() < CLOSE
    return "unmasked" if near else "other"


def compute(
    trace: Trace, site: AttentionSite, head: int, row: int, way: Way, lowered: int
) -> tuple[FillResult, ...]:
    """Every fill on the scores of the selected head."""
    scores = trace.activations[site.hook("scores")][head]
    return fills(scores, trace.mask(site.name)[head], row, way, float(lowered))


def show(found: tuple[FillResult, ...], view: View) -> b.Blocks:
    """How the fill is applied, a grid for rows with open keys and one for a row without."""
    choices = view.choices(MasksChoices)
    yield b.Prose(view.t("masks.fills_lead"))
    yield b.Row(picking.pick_place(view, "masks"))
    yield picking.pick_one(view, "masks.way", WAYS, choices.way)
    more = b.More(step=1000, help=view.t("masks.lowered_help"), width=420)
    yield picking.slider(view, "masks.lowered", 0, MOST_LOWERED, choices.lowered, **more)
    query = saying.quoted_at(view, view.trace.query_tokens(view.site.name), view.row)
    yield b.Columns(
        (
            (b.Title(view.t("masks.fills_open")), _grid(view, found, "open")),
            (b.Title(view.t("masks.fills_empty", query=query)), _grid(view, found, "empty")),
        )
    )
    yield b.Sentence("fills", _reading(view, found))
    if view.trace.mask(view.site.name)[view.head].all():
        yield b.Hint(view.t("masks.fills_all_open"))
    yield b.Formula.of(
        view.t("masks.fills_formula"),
        r"p_{b} = \frac{b\,e^{f}}{\sum_{k=1}^{n-b} e^{s_k} + b\,e^{f}}",
        r"b = n:\quad f > -\infty \Rightarrow p_j = \tfrac{1}{n},\qquad "
        r"f = -\infty \Rightarrow p_j = \tfrac{0}{0}",
    )
    yield b.Code((hidden_by, masked_softmax))
    yield b.Numbers(lambda: _numbers(view, found))


def _grid(view: View, found: tuple[FillResult, ...], which: str) -> b.Chart:
    cells = np.array(found, object).reshape(len(FILLS), len(DTYPES))
    says = _open if which == "open" else empty_outcome
    both = [[says(view, each) for each in row] for row in cells]
    draw = partial(
        outcomes,
        [[level for level, _ in row] for row in both],
        [[text for _, text in row] for row in both],
        [fill_name(view, fill) for fill in FILLS],
        list(DTYPES),
    )
    return b.Chart(f"masks.fills.{which}", draw, view.t(f"masks.fills_{which}_alt"))


def fill_name(view: View, fill: Fill) -> str:
    """A fill as it is written."""
    return VALUES.get(fill) or view.t("masks.fill_zeroed")


def _open(view: View, each: FillResult) -> tuple[Level, str]:
    """The verdict for queries with an open key."""
    if each.refused:
        return "loud", view.t("masks.fill_refused")
    if each.lost:
        return "loud", view.t("masks.fill_nan")
    if not each.hides:
        return "silent", view.t("masks.fill_leaks", share=percent(each.hidden))
    error = _points(each.rounding)
    if each.rounding > COARSE:
        return "silent", view.t("masks.fill_rounds", error=error)
    return "good", view.t("masks.fill_hides", error=error)


def _points(error: float) -> str:
    return f"±{digits(100 * error, 2)} %" if error else "±0"


def empty_outcome(view: View, each: FillResult) -> tuple[Level, str]:
    """The verdict for a fully masked query."""
    if each.refused or each.row is None:
        return "loud", view.t("masks.fill_refused")
    share = percent(float(np.nan_to_num(each.row).max()))
    return LEVEL_OF[each.empty], view.t(f"masks.empty_{each.empty}", share=share)


def _reading(view: View, found: tuple[FillResult, ...]) -> str:
    """How many of the fills leak, are refused, or go wrong in an empty row; the last rule apart."""
    plain = [each for each in found if each.fill != "zeroed"]
    known = [each for each in plain if not each.refused]
    own = [each for each in found if each.fill == "zeroed"]
    counts = {
        "count": len(plain),
        "refused": len(plain) - len(known),
        "leaks": sum(not each.hides for each in known),
        "nan": sum(each.empty == "nan" for each in known),
        "spread": sum(each.empty in ("uniform", "unmasked", "other") for each in known),
    }
    words = view.t("masks.fills_reading", **counts)
    safe = all(each.hides and each.empty == "zero" for each in own)
    return f"{words} {view.t('masks.fills_own' if safe else 'masks.fills_own_not')}"


def _numbers(view: View, found: tuple[FillResult, ...]) -> dict[str, list[object]]:
    return {
        view.t("masks.fill"): [fill_name(view, each.fill) for each in found],
        view.t("masks.dtype"): [each.dtype for each in found],
        view.t("masks.stored"): [
            view.t("masks.fill_refused") if each.refused else digits(each.stored, 8)
            for each in found
        ],
        view.t("masks.hidden_weight"): [fixed(each.hidden, 4) for each in found],
        view.t("masks.rounding"): [digits(each.rounding, 2) for each in found],
        view.t("masks.empty_row_became"): [empty_outcome(view, each)[1] for each in found],
    }


EXHIBIT = Exhibit(compute, show)
