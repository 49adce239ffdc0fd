"""Likely causes of a set of findings, by which properties break, which hold, and where, and by the
captured weights."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor

from explorer.analysis.cases import BY_ID, Case
from explorer.analysis.mask_tests.certify import Finding
from explorer.analysis.mask_tests.examiner import Examiner
from explorer.analysis.mask_tests.sites import Site
from explorer.notebook.capture import capture
from explorer.notebook.captured import Attention, kind_of
from models.rows import Rows, Stream

SHARE = 1e-4
"""Tolerance for the weight on hidden keys and for row sums, above rounding error.

In half precision the tolerance of the logits is used instead."""
CacheFault = Literal["", "is_causal_cache", "cache_keys", "cache_heads", "cache_positions", "rows"]
Cause = Literal[
    "rows", "outside_future", "inverted_causal", "diagonal_open", "first_item", "first_head",
    "times_zero", "no_mask", "ahead_unseen", "after_softmax", "added_after", "inverted_padding",
    "shifted_padding", "other_row", "pad_visible", "outside_padding", "pads_unseen",
    "empty_row_nan", "left_positions", "length", "diagonal_closed", "causal_cross",
    "hides_too_much", "is_causal_cache", "cache_keys", "cache_heads", "cache_positions", "cache",
    "error", "unknown",
]  # fmt: skip
"""Texts are at `notebook.causes.*`; a cause that is the id of a common bug is illustrated by it."""

_SHOWN_BY = {"ahead_unseen": "no_mask"}
_PADDING = {"pad_content", "padding_right", "padding_left", "padding_batch"}


def bug_of(cause: Cause) -> Case | None:
    """The common bug that shows a cause in code; None if there is none."""
    return BY_ID.get(_SHOWN_BY.get(cause, cause))


@dataclass(frozen=True, eq=False)
class CapturedSite(Site):
    """A captured call in a run over padded rows."""

    call: Attention = field(kw_only=True)

    @classmethod
    def of(
        cls, call: Attention, rows: Rows, causal: bool, window: int | None = None
    ) -> "CapturedSite | None":
        """The sequences of queries and keys, by length; None if none matches."""
        lengths: dict[int, Stream] = {rows.tgt.shape[1]: "tgt"}
        if rows.src is not None:
            lengths |= {rows.src.shape[1]: "src"}
        query, key = (lengths.get(length) for length in call.pattern.shape[-2:])
        if query is None or key is None or len(call.pattern) != len(rows):
            return None
        return cls(
            call.name,
            (query, key),
            rows.valid(query),
            rows.valid(key),
            causal and query == key == "tgt",
            lambda level: call.pattern if level is None else None,
            call.mask,
            window=window if query == key == "tgt" else None,
            call=call,
        )

    @property
    def fill(self) -> "Fill | None":
        """The finite number that hides keys although their weights pass; None if there is none."""
        hidden = self.pads | self.later if self.causal else self.pads
        hidden = hidden if self.mask is None else hidden | ~self.visible
        hidden = hidden & self.query_real[:, None, :, None]
        weights, scores = self.weights.abs() * hidden, self.call.scores
        leaks = (weights > 0) & bool(weights.max() <= SHARE)
        if scores is None:
            return Fill(self.name, None, float(weights.max())) if bool(leaks.any()) else None
        through = hidden & scores.isfinite() & (leaks | (scores.softmax(-1) == 0))
        if not bool(through.any()):
            return None
        return Fill(self.name, float(scores[through].max()), float(weights[through].max()))


@dataclass(frozen=True)
class Fill:
    """A mask of a finite number: its attention, the largest masked score (None if not recorded),
    and the largest weight of a hidden key, which is 0 if the softmax underflows."""

    name: str
    score: float | None
    weight: float


class Recording(capture):
    """A capture that also records scores, and the queries and keys of plain code."""

    keeps_scores = True


# Properties of captured weights: `hidden` is the pattern at hidden keys, NaN elsewhere.

Hidden = Callable[[CapturedSite, Tensor], bool]


def weighted(site: CapturedSite, where: Tensor) -> list[tuple[CapturedSite, Tensor]]:
    """The pattern [batch, head, query, key] at hidden keys, NaN elsewhere; none if all are 0."""
    hidden = site.weights.masked_fill(~where, math.nan)
    return [(site, hidden)] if float(hidden.nan_to_num().abs().max()) > SHARE else []


def _beyond(site: CapturedSite) -> bool:
    weights = site.weights[site.query_real[:, None, :].expand(site.weights.shape[:3])]
    return bool(((weights < -SHARE) | (weights > 1 + SHARE)).any())


def _next_only(site: CapturedSite, hidden: Tensor) -> bool:
    """Whether only the token after each query has weight."""
    beyond = hidden.triu(2) + hidden.tril()
    return float(beyond.nan_to_num().max()) <= SHARE


def _equal(site: CapturedSite, hidden: Tensor) -> bool:
    """Whether the hidden keys of each query have equal weights."""
    several = (~hidden.isnan()).sum(-1) > 1
    high = hidden.nan_to_num(nan=-math.inf).amax(-1)[several]
    low = hidden.nan_to_num(nan=math.inf).amin(-1)[several]
    return bool(several.any()) and float((high - low).max()) < 1e-6


def _some_heads(site: CapturedSite, hidden: Tensor) -> bool:
    """Whether some, but not all, heads put no weight on blocked keys."""
    most = hidden.nan_to_num().amax((0, 2, 3))
    return bool((most > SHARE).any()) and bool((most <= SHARE).any())


def _inverted(site: CapturedSite, hidden: Tensor) -> bool:
    """Whether queries with weight on hidden keys have none on visible ones."""
    leaking = hidden.nan_to_num().abs().amax(-1) > SHARE
    rest = (site.weights * site.allowed).abs().amax(-1)
    return float(rest[leaking].max()) <= SHARE


def _shifted(site: CapturedSite, hidden: Tensor) -> bool:
    """Whether the last query's blocked keys are the padding, moved by the same number of places."""
    closed, pads = ~site.visible[:, :, -1], ~site.key_real[:, None]
    n = pads.shape[-1]
    return any(
        torch.equal(closed, pads.roll(places, -1).expand(closed.shape)) for places in range(1, n)
    )


def _only_itself(site: CapturedSite) -> bool:
    closed = site.allowed & ~site.visible
    own = torch.eye(*closed.shape[-2:], dtype=torch.bool, device=closed.device)
    return site.is_self and torch.equal(closed, site.allowed & own)


def _causal_cross(site: CapturedSite) -> bool:
    """Whether open cells of cross-attention, of which there are some, end along a diagonal."""
    n_query, n_key = site.weights.shape[-2:]
    shapes = (torch.ones_like(site.later).tril(place) for place in range(1 - n_query, n_key))
    visible = site.allowed & site.visible
    return (
        not site.is_self
        and bool(visible.any())
        and any(torch.equal(visible, site.allowed & shape) for shape in shapes)
    )


# The causes.


@dataclass(frozen=True)
class _Case:
    broken: Collection[str]
    kept: Collection[str]
    endless: Collection[str]  # NaN or infinite
    places: Mapping[str, str]  # the kind of module with the largest deviation
    sites: Sequence[CapturedSite]
    unseen: bool

    def breaks(self, *names: str) -> bool:
        return all(name in self.broken for name in names)

    def ahead(self, holds: Hidden) -> bool:
        """Whether this holds wherever later tokens have weight."""
        sites = [site for site in self.sites if site.causal]
        return all(
            holds(*part) for site in sites for part in weighted(site, site.cells & site.later)
        )

    def on_pads(self, holds: Hidden) -> bool:
        """Whether this holds wherever padding has weight."""
        return all(
            holds(*part)
            for site in self.sites
            for part in weighted(site, site.query_real[:, None, :, None] & site.pads)
        )

    def closed(self, holds: Callable[[CapturedSite], bool]) -> bool:
        """Whether this holds wherever a real key is blocked."""
        sites = (site for site in self.sites if bool((site.allowed & ~site.visible).any()))
        return all(map(holds, sites))

    @property
    def exchanged(self) -> bool:
        """Whether one kind of module gives weight to hidden keys and blocks visible ones."""
        closed = self.places.get("open_cells") if "open_cells" in self.broken else None
        masses = ("future_mass", "pad_mass", "cross_mask")
        return any(mass in self.broken and self.places.get(mass) == closed for mass in masses)

    @property
    def of_another_row(self) -> bool:
        """Whether padding has weight, or real keys are blocked, only next to other lengths."""
        return {"padding_right", "padding_left"} <= set(self.kept) and self.breaks("padding_batch")

    @property
    def looks_ahead(self) -> bool:
        return "future_leak" in self.broken or "future_mass" in self.broken

    @property
    def sees_pads(self) -> bool:
        """Whether padding has weight, but not because all masks are missing."""
        own = "pad_mass" in self.broken and "future_mass" not in self.broken
        return own or "cross_mask" in self.broken

    @property
    def drops_weight(self) -> bool:
        """Whether rows do not sum to 1, and no hidden key has weight."""
        return "row_sums" in self.broken and not (
            {"future_mass", "pad_mass", "cross_mask"} & set(self.broken)
        )


Holds = Callable[[_Case], bool]

_AHEAD: Mapping[Cause, Holds] = {
    "added_after": lambda case: case.breaks("future_mass") and any(map(_beyond, case.sites)),
    "inverted_causal": lambda case: case.breaks("future_mass") and case.ahead(_inverted),
    # A batch of one is correct: `prefix` runs one sentence at a time.
    "first_item": lambda case: case.breaks("future_mass") and "prefix" in case.kept,
    "diagonal_open": lambda case: case.breaks("future_mass") and case.ahead(_next_only),
    "first_head": lambda case: case.breaks("future_mass") and case.ahead(_some_heads),
    "times_zero": lambda case: case.breaks("future_mass") and case.ahead(_equal),
    "no_mask": lambda case: case.breaks("future_mass"),
    "after_softmax": lambda case: case.looks_ahead and case.drops_weight,
    "outside_future": lambda case: (
        case.looks_ahead and "future_mass" in case.kept and not case.unseen
    ),
    "ahead_unseen": lambda case: case.looks_ahead,
    "length": lambda case: case.breaks("prefix") and "open_cells" not in case.broken,
}

_PADS: Mapping[Cause, Holds] = {
    "added_after": lambda case: case.sees_pads and any(map(_beyond, case.sites)),
    "other_row": lambda case: case.of_another_row and (case.sees_pads or case.breaks("open_cells")),
    "inverted_padding": lambda case: case.sees_pads and case.on_pads(_inverted),
    "shifted_padding": lambda case: case.sees_pads and case.exchanged and case.on_pads(_shifted),
    "first_head": lambda case: case.sees_pads and case.on_pads(_some_heads),
    "unknown": lambda case: case.sees_pads and case.exchanged,
    "pad_visible": lambda case: case.sees_pads,
    "empty_row_nan": lambda case: "padding_left" in case.endless,
    "after_softmax": lambda case: (
        case.breaks("pad_content") and case.drops_weight and not case.looks_ahead
    ),
    "outside_padding": lambda case: (
        case.breaks("pad_content")
        and not case.looks_ahead
        and not case.unseen
        and bool({"pad_mass", "cross_mask"} & set(case.kept))
    ),
    "pads_unseen": lambda case: case.breaks("pad_content") and not case.looks_ahead,
    # The masks, which were seen, are right: only places are left.
    "left_positions": lambda case: (
        _PADDING & set(case.broken) == {"padding_left"}
        and {"open_cells", "row_sums"} <= set(case.kept)
    ),
}

_CLOSED: Mapping[Cause, Holds] = {
    "causal_cross": lambda case: (
        case.breaks("open_cells")
        and case.closed(_causal_cross)
        and "padding_left" not in case.endless
    ),
    "diagonal_closed": lambda case: (
        case.breaks("open_cells", "row_sums")
        and case.closed(_only_itself)
        and "padding_left" not in case.endless
    ),
    "hides_too_much": lambda case: (
        case.breaks("open_cells")
        and "row_sums" not in case.broken
        and not case.exchanged
        and not case.of_another_row
    ),
}

_PARTS = (_AHEAD, _PADS, _CLOSED)
"""Look-ahead, padding, and blocked cells: the first matching cause of each is reported."""

assert {cause for part in _PARTS for cause in part} <= set(get_args(Cause))


def diagnose(
    findings: Sequence[Finding],
    sites: Sequence[CapturedSite],
    *,
    cache: CacheFault = "",
    rows: bool = False,
    unseen: bool = False,
) -> tuple[Cause, ...]:
    """The likely causes, one for each part of `_PARTS`; () if every finding passed.

    `sites` is the captured attention of padded rows, `cache` the fault of cached steps. `rows`: a
    sequence of a batch changes the results of another one, without padding. `unseen`: the pattern
    of some attention could not be recorded.
    """
    broken = {finding.name for finding in findings if not finding.passed and not finding.error}
    kept = {finding.name for finding in findings if finding.passed}
    endless = {finding.name for finding in findings if finding.deviation == float("inf")} & broken
    if not any(not finding.passed for finding in findings):
        return ()
    if rows:
        return ("rows",)
    places = {
        finding.name: kind_of(finding.where.name)
        for finding in findings
        if finding.where is not None
    }
    case = _Case(broken, kept, endless, places, sites, unseen)
    causes: list[Cause] = ["error"] if any(finding.error for finding in findings) else []
    for part in _PARTS:
        cause = next((cause for cause, holds in part.items() if holds(case)), None)
        if cause is not None:
            causes.append(cause)
    if not causes and "cache" in broken:
        causes.append(cache or "cache")
    return tuple(dict.fromkeys(causes)) or ("unknown",)


# Cached steps.


def cache_fault(examiner: Examiner) -> CacheFault:
    """The first difference between the attention of cached steps and of one pass.

    "" if the attention shows none, or was not captured in the same way.
    """
    rows = next(examiner.cached_rows())
    n = rows.tgt.shape[1]
    with Recording(sequences=len(rows)) as whole:
        examiner.run(rows)
    for plan in ([1] * n, [n // 2, n - n // 2]):
        sizes = [size for size in plan if size]
        steps, end = examiner.steps(rows, sizes), 0
        for size in sizes:
            with Recording(sequences=len(rows)) as seen:
                next(steps)
            end += size
            if len(seen) != len(whole):
                return ""
            for at, (call, right) in enumerate(zip(seen, whole, strict=True)):
                for fault in _step_faults(call, right, end - size, end):
                    # In later layers, the inputs also differ because earlier outputs do.
                    return "" if at and fault == "cache_positions" else fault
    return ""


def _step_faults(call: Attention, right: Attention, begin: int, end: int) -> Iterator[CacheFault]:
    """What differs in one attention of a step, which reads the tokens from `begin` to `end`."""
    pattern, n_key = call.pattern, call.pattern.shape[-1]
    is_self = right.pattern.shape[-2] == right.pattern.shape[-1]
    if pattern.shape[:2] != right.pattern.shape[:2] or pattern.shape[2] != end - begin:
        return
    if n_key != (end if is_self else right.pattern.shape[-1]):
        yield "cache_keys"
        return
    wanted = right.pattern[..., begin:end, :n_key]
    if _close(pattern, wanted):
        return
    if bool(((pattern.abs() > SHARE) != (wanted.abs() > SHARE)).any()) and _masks_differ(
        call, pattern, wanted
    ):
        yield "is_causal_cache"
    elif call.query is not None and call.key is not None and right.query is not None:
        assert right.key is not None
        queries, keys = right.query[..., begin:end, :], right.key[..., :n_key, :]
        yield from _input_faults(call.query, call.key, queries, keys)


def _masks_differ(call: Attention, pattern: Tensor, wanted: Tensor) -> bool:
    """Whether a cell is closed only in the step, or only in one pass."""
    visible = pattern != 0 if call.mask is None else call.mask.expand(pattern.shape)
    return bool((visible != (wanted != 0)).any())


def _input_faults(
    query: Tensor, key: Tensor, queries: Tensor, keys: Tensor
) -> Iterator[CacheFault]:
    """How queries and keys [batch, head, pos, d_head] of a step differ from one pass."""
    if _close(query, queries):
        if _taken_from(key, keys, 2):
            yield "cache_keys"
            return
        if _taken_from(key, keys, 1):
            yield "cache_heads"
            return
    elif _taken_from(query, queries, 0):
        yield "rows"
        return
    new = query.shape[2]
    if not _close(query, queries) or not _close(key[:, :, -new:], keys[:, :, -new:]):
        yield "cache_positions"
    elif not _close(key, keys):
        yield "cache_keys"


def _close(found: Tensor, wanted: Tensor) -> bool:
    scale = float(wanted.abs().max().clamp(min=1.0))
    return found.shape == wanted.shape and float((found - wanted).abs().max()) <= SHARE * scale


def _taken_from(found: Tensor, wanted: Tensor, axis: int) -> bool:
    """Whether each slice along an axis is one of the wanted slices, though not its own."""
    if _close(found, wanted):
        return False
    slices = wanted.unbind(axis)
    return all(any(_close(piece, other) for other in slices) for piece in found.unbind(axis))
