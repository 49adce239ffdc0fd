"""Chapter 2 of the guided tour: masks."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from explorer.exhibits.masks.fills import FillResult, fills
from explorer.exhibits.tour.found import (
    Missing,
    QueryRow,
    allowed_of,
    best_row,
    rows,
    scores_of,
    varied,
)
from explorer.library import LoadedModel
from explorer.numerics import softmax
from explorer.runs import trace as tracing
from explorer.runs.edits import MaskSwitch
from explorer.runs.interventions import edit_functions
from explorer.runs.rerun import rerun, rows_of
from explorer.runs.trace import Trace
from models.hooks import Role

PADS = 3
"""How many PADs the step about padding adds."""


def own_role(trace: Trace) -> Role:
    """The kind of self-attention in the sequence that the logits belong to."""
    return trace.stack("tgt").role


def _n_real(trace: Trace) -> int:
    return int(trace.tgt_valid.sum())


def _lacking(loaded: LoadedModel, trace: Trace) -> Missing | None:
    """Why the steps about the causal mask do not work with this run; None if they do."""
    if not loaded.config.generates:
        return Missing("no_causal")
    site = trace.sites_of(own_role(trace))[0]
    n = _n_real(trace)
    if n < 4:
        return Missing("short")
    if not (trace.mask(site.name)[0] == np.tri(n, dtype=bool)).all():
        return Missing("windowed")
    return None


def _middle(trace: Trace) -> int:
    """A query with tokens on both sides."""
    return round(varied(trace, 1, _n_real(trace) - 3)) if _n_real(trace) > 4 else 1


@dataclass(frozen=True, eq=False)
class Open:
    """The weights [key] of a query with and without the causal mask; `ahead` is the weight that it
    gives to later tokens without the mask."""

    row: QueryRow
    masked: np.ndarray
    unmasked: np.ndarray
    ahead: float

    @property
    def next(self) -> int:
        """The position of the token that this query must predict."""
        return self.row.query + 1


def purpose(loaded: LoadedModel, trace: Trace) -> Open | Missing:
    """Run the tokens without the mask, and find the head whose middle query looks ahead most."""
    lacking = _lacking(loaded, trace)
    if lacking is not None:
        return lacking
    sites, query = trace.sites_of(own_role(trace)), _middle(trace)
    given = rows_of(trace)
    switched = (MaskSwitch("causal", False),)
    edits = edit_functions(trace.sites, switched, given.src_valid, given.tgt_valid)
    seen = rerun(loaded, trace, {site.hook("pattern") for site in sites}, edits)
    found: dict[QueryRow, np.ndarray] = {}
    for site in sites:
        pattern = seen[site.hook("pattern")][0].double().numpy()
        for head in range(site.n_heads):
            found[QueryRow(site, head, query)] = pattern[head, query]
    row = max(found, key=lambda row: float(found[row][query + 1 :].sum()))
    masked = trace.pattern(row.site.name)[row.head, query].astype(np.float64)
    return Open(row, masked, found[row], float(found[row][query + 1 :].sum()))


@dataclass(frozen=True)
class VisibleKeys:
    """How many of `n` keys a query of causal attention may attend to (`seen`)."""

    row: QueryRow
    n: int
    seen: int


def sees(loaded: LoadedModel, trace: Trace) -> VisibleKeys | Missing:
    """How many keys a query in the middle may attend to."""
    lacking = _lacking(loaded, trace)
    if lacking is not None:
        return lacking
    row = QueryRow(trace.sites_of(own_role(trace))[0], 0, max(2, _middle(trace)))
    return VisibleKeys(row, _n_real(trace), int(allowed_of(trace, row).sum()))


@dataclass(frozen=True)
class Blocked:
    """How many cells of a causal mask are open and blocked."""

    row: QueryRow
    n: int
    open: int
    blocked: int


def blocked(loaded: LoadedModel, trace: Trace) -> Blocked | Missing:
    """Count the cells of the causal mask."""
    lacking = _lacking(loaded, trace)
    if lacking is not None:
        return lacking
    site = trace.sites_of(own_role(trace))[0]
    mask = trace.mask(site.name)[0]
    return Blocked(QueryRow(site, 0, 0), len(mask), int(mask.sum()), int((~mask).sum()))


@dataclass(frozen=True, eq=False)
class Unmasked:
    """A query of causal self-attention with a wrong order of mask and softmax.

    `right` [key] are its weights, `raw` its weights without a mask, and `zeroed` its weights if the
    blocked scores are 0 instead of minus infinity.
    """

    row: QueryRow
    allowed: np.ndarray
    right: np.ndarray
    raw: np.ndarray
    zeroed: np.ndarray

    @property
    def left(self) -> float:
        """The sum of the weights if blocked ones are set to 0 after the softmax."""
        return float(self.raw[self.allowed].sum())

    @property
    def leaked(self) -> float:
        """The weight on blocked keys if their scores are 0."""
        return float(self.zeroed[~self.allowed].sum())


def _unmasked(trace: Trace, row: QueryRow) -> Unmasked:
    allowed, scores = allowed_of(trace, row), scores_of(trace, row)
    return Unmasked(
        row,
        allowed,
        softmax(np.where(allowed, scores, -np.inf)),
        softmax(scores),
        softmax(np.where(allowed, scores, 0.0)),
    )


def after(loaded: LoadedModel, trace: Trace) -> Unmasked | Missing:
    """The query whose row sum is closest to a target if the mask follows the softmax."""
    return _lacking(loaded, trace) or _near(trace, lambda each: each.left, (0.3, 0.7))


def zero(loaded: LoadedModel, trace: Trace) -> Unmasked | Missing:
    """The query whose leak is closest to a target if blocked scores are multiplied by 0."""
    return _lacking(loaded, trace) or _near(trace, lambda each: each.leaked, (0.2, 0.6))


def _near(
    trace: Trace, measure: Callable[[Unmasked], float], span: tuple[float, float]
) -> Unmasked | Missing:
    wanted, n = varied(trace, *span), _n_real(trace)

    def worth(row: QueryRow) -> float:
        if not 0 < row.query < n - 1:
            return np.nan
        return -abs(measure(_unmasked(trace, row)) - wanted)

    found = best_row(trace, own_role(trace), worth)
    if found is None or not 0.02 < measure(_unmasked(trace, found)) < 0.98:
        return Missing("flat")
    return _unmasked(trace, found)


@dataclass(frozen=True, eq=False)
class PaddedMask:
    """The mask of one head with PADs after the text, [query, key]."""

    row: QueryRow
    traced: Trace
    n: int
    pads: int
    open: int
    causal: bool


def padding(loaded: LoadedModel, trace: Trace) -> PaddedMask | Missing:
    """Run the text followed by PADs; return the mask of the encoder or of a decoder-only model."""
    if loaded.marks.pad is None:
        return Missing("no_pad")
    traced = tracing.trace(loaded, trace.text, None, (), PADS)
    role: Role = "encoder" if trace.sites_of("encoder") else own_role(trace)
    site = traced.sites_of(role)[0]
    mask = traced.mask(site.name)[0]
    causal = not mask[0, : len(mask) - PADS].all()
    return PaddedMask(QueryRow(site, 0, 0), traced, len(mask) - PADS, PADS, int(mask.sum()), causal)


@dataclass(frozen=True, eq=False)
class Filling:
    """The result of every fill for a fully masked query, in float32 and float16."""

    row: QueryRow
    weights: np.ndarray
    found: tuple[FillResult, ...]

    def of(self, fill: str, dtype: str) -> FillResult:
        """The result for one fill and dtype."""
        return next(each for each in self.found if (each.fill, each.dtype) == (fill, dtype))


def filling(loaded: LoadedModel, trace: Trace) -> Filling | Missing:
    """Apply every common fill value to a query of the first self-attention head."""
    site = trace.sites_of(own_role(trace))[0]
    n = len(trace.query_tokens(site.name))
    if n < 3:
        return Missing("short")
    row = next(row for row in rows(trace, own_role(trace)) if row.query == min(2, n - 1))
    scores = trace.activations[site.hook("scores")][row.head]
    found = fills(scores, trace.mask(site.name)[row.head], row.query)
    weights = trace.pattern(site.name)[row.head, row.query].astype(np.float64)
    return Filling(row, weights, found)
