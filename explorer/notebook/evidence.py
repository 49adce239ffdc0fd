"""Facts about captured weights that tell the causes of a certificate's findings apart."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from explorer.analysis.mask_tests.examiner import Examiner
from explorer.analysis.mask_tests.sites import Site
from explorer.notebook.capture import capture
from explorer.notebook.captured import Attention
from models.rows import Rows, Stream

SHARE = 1e-4
"""Tolerance for the weight on hidden keys and for row sums, above rounding error.

In half precision the tolerance of the logits is used instead."""
CacheFault = Literal["", "is_causal_cache", "cache_keys", "cache_heads", "cache_positions", "rows"]


@dataclass(frozen=True)
class Evidence:
    """Facts in addition to the findings.

    `rows`: a sequence of a batch changes the results of another one, without padding. `unseen`:
    the pattern of some attention could not be recorded. `beyond`: some weights are below 0 or above
    1. Weight on later tokens: `next_only`, only the next token has weight; `equal`, all hidden keys
    of a query have the same weight; `some_heads`, some heads have none; `inverted`, such a query
    has none on visible keys. `some_heads_pads` and `inverted_pads`: the same of padding.
    `shifted_pads`: the blocked keys are the padding shifted by some positions. Blocked real keys:
    `only_itself`, each token's own key in self-attention; `causal_cross`, the keys above a diagonal
    in cross-attention. `cache`: the fault of cached steps.
    """

    rows: bool = False
    unseen: bool = False
    beyond: bool = False
    next_only: bool = False
    equal: bool = False
    some_heads: bool = False
    inverted: bool = False
    some_heads_pads: bool = False
    inverted_pads: bool = False
    shifted_pads: bool = False
    only_itself: bool = False
    causal_cross: bool = False
    cache: CacheFault = ""


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


def facts(sites: Sequence[CapturedSite], cache: CacheFault, rows: bool, unseen: bool) -> Evidence:
    """Common properties of the weights that should be 0 and of the cells that should be open."""
    ahead, pads = [], []
    for site in sites:
        pads += _weighted(site, site.query_real[:, None, :, None] & site.pads)
        if site.causal:
            ahead += _weighted(site, site.cells & site.later)
    closed = [site for site in sites if bool((site.allowed & ~site.visible).any())]
    return Evidence(
        rows=rows,
        unseen=unseen,
        beyond=any(map(_beyond, sites)),
        next_only=all(_next_only(hidden) for _, hidden in ahead),
        equal=all(_equal(hidden) for _, hidden in ahead),
        some_heads=all(_some_heads(hidden) for _, hidden in ahead),
        inverted=all(_inverted(site, hidden) for site, hidden in ahead),
        some_heads_pads=all(_some_heads(hidden) for _, hidden in pads),
        inverted_pads=all(_inverted(site, hidden) for site, hidden in pads),
        shifted_pads=all(_shifted(site) for site, _ in pads),
        only_itself=all(map(_only_itself, closed)),
        causal_cross=all(map(_causal_cross, closed)),
        cache=cache,
    )


def _weighted(site: CapturedSite, where: Tensor) -> list[tuple[CapturedSite, Tensor]]:
    """The pattern [batch, head, query, key] at hidden keys, NaN elsewhere; none if all are 0."""
    hidden = site.weights.masked_fill(~where, math.nan)
    return [(site, hidden)] if float(hidden.nan_to_num().abs().max()) > SHARE else []


def _beyond(site: CapturedSite) -> bool:
    weights = site.weights[site.query_real[:, None, :].expand(site.weights.shape[:3])]
    return bool(((weights < -SHARE) | (weights > 1 + SHARE)).any())


def _next_only(hidden: Tensor) -> bool:
    """Whether only the token after each query has weight."""
    beyond = hidden.triu(2) + hidden.tril()
    return float(beyond.nan_to_num().max()) <= SHARE


def _equal(hidden: Tensor) -> bool:
    """Whether the hidden keys of each query have equal weights."""
    several = (~hidden.isnan()).sum(-1) > 1
    high = hidden.nan_to_num(nan=-math.inf).amax(-1)[several]
    low = hidden.nan_to_num(nan=math.inf).amin(-1)[several]
    return bool(several.any()) and float((high - low).max()) < 1e-6


def _some_heads(hidden: Tensor) -> bool:
    """Whether some, but not all, heads put no weight on blocked keys."""
    most = hidden.nan_to_num().amax((0, 2, 3))
    return bool((most > SHARE).any()) and bool((most <= SHARE).any())


def _inverted(site: CapturedSite, hidden: Tensor) -> bool:
    """Whether queries with weight on hidden keys have none on visible ones."""
    leaking = hidden.nan_to_num().abs().amax(-1) > SHARE
    rest = (site.weights * site.allowed).abs().amax(-1)
    return float(rest[leaking].max()) <= SHARE


def _shifted(site: CapturedSite) -> bool:
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
