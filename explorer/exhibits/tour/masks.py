"""Chapter 2 of the guided tour: masks."""

from dataclasses import replace
from itertools import product

import numpy as np
import torch

from explorer.analysis.cases.case import ResultRow
from explorer.analysis.cases.fills import DTYPES, FILLS
from explorer.analysis.cases.masks import mask_after_softmax, multiplied_by_zero
from explorer.analysis.cases.planting import Pattern
from explorer.engine import cache
from explorer.exhibits import View
from explorer.exhibits.cases.outcome import named, spelt
from explorer.exhibits.saying import quoted
from explorer.exhibits.tour import pictures, rows
from explorer.exhibits.tour.pictures import Exhibited
from explorer.exhibits.tour.posed import Posed
from explorer.exhibits.tour.rows import QueryRow, require, row_of, varied
from explorer.numbers import digits, percent
from explorer.numerics import softmax
from explorer.runs.edits import MaskSwitch
from explorer.runs.trace import Trace
from models.hooks import AttentionSite

PADS = 3
"""How many PADs the step about padding adds."""
WITHOUT = {"edits": (MaskSwitch("causal", False),)}
FILLED = {"part": "fills"}


def _causal(view: View) -> tuple[AttentionSite, int]:
    """The first site with a causal mask, and the number of real tokens. Raises MissingError."""
    require(view.trace.sites_of("decoder"), "no_causal")
    site, n = view.sites_of(view.own_role)[0], int(view.trace.tgt_valid.sum())
    require(n >= 4, "short")
    require((view.trace.mask(site.name)[0] == np.tri(n, dtype=bool)).all(), "windowed")
    return site, n


def _middle(trace: Trace, n: int) -> int:
    """A query with tokens on both sides."""
    return round(varied(trace, 1, n - 3)) if n > 4 else 1


def purpose(view: View) -> Posed:
    """A query in the middle, and the head that looks ahead most without the mask."""
    (_, n), trace = _causal(view), view.trace
    query = _middle(trace, n)
    place = {**WITHOUT, "target": trace.output or view.target}  # not another translation
    after = Exhibited("masks.causal", "masks.ahead", place)
    ahead = after.answer(view)[0]
    row = row_of(trace, view.sites_of(view.own_role)[ahead.layer], ahead.head, query)
    tokens, strip = trace.query_tokens(row.site.name), pictures.strip(view, "tgt", at=query)
    # Without positions: another token of the same word would give the answer away, too.
    options = [quoted(view, tokens[key]) for key in (query + 1, query, query - 1, 0, n - 1)]
    return Posed(options, {"ahead": percent(ahead.most)}, [strip], [strip, after], row, place)


def _masked(view: View, row: QueryRow, **place: object) -> Exhibited:
    """The picture of the masks of a layer, of which the step shows this kind of attention."""
    at, place = view.kinds.index(row.site.role), row.place | place
    return Exhibited("masks.matrices", "masks.matrices", place, at)


def sees(view: View) -> Posed:
    """How many keys a query in the middle may attend to."""
    site, n = _causal(view)
    query = max(2, _middle(view.trace, n))
    row = row_of(view.trace, site, 0, query)
    seen = int(row.allowed.sum())
    options = (seen, query, n, n - query, 1)
    words = {"place": query + 1, "all": n}
    before = pictures.strip(view, "tgt", at=query)
    after = _masked(view, row, mask_cell=(site.role, query, query))
    return Posed(options, words, [before], [after], row)


def blocked(view: View) -> Posed:
    """Count the cells of the causal mask."""
    site, n = _causal(view)
    row, mask = row_of(view.trace, site, 0, 0), view.trace.mask(site.name)[0]
    right, visible = int((~mask).sum()), int(mask.sum())
    counts = (right, visible, n * n // 2, n * n - n)
    drawn = [pictures.strip(view, "tgt")], [_masked(view, row)]
    return Posed(counts, {"all": n, "cells": n * n}, *drawn, row)


def _planted(
    view: View, way: Pattern, low: float, high: float
) -> tuple[QueryRow, np.ndarray, float]:
    """The row of which a wrong mask takes a share closest to a number from `low` to `high` away
    from its open keys, its weights under that mask, and the share."""
    (_, n), wanted = _causal(view), varied(view.trace, low, high)

    def wrong(row: QueryRow) -> tuple[np.ndarray, float]:
        weights: np.ndarray = way(torch.tensor(row.scores), torch.tensor(row.allowed)).numpy()
        return weights, float(1 - weights[row.allowed].sum())

    def worth(row: QueryRow) -> float | None:
        return -abs(wrong(row)[1] - wanted) if 0 < row.query < n - 1 else None

    row = rows.best_row(view, "flat", worth, view.own_role)
    weights, lost = wrong(row)
    require(0.02 < lost < 0.98, "flat")
    return row, weights, lost


def after(view: View) -> Posed:
    """The query whose row sum is closest to a target if the mask follows the softmax."""
    row, wrong, lost = _planted(view, mask_after_softmax, 0.7, 0.3)
    left = 1 - lost
    pair = {view.t("tour.mask_after"): wrong, view.t("tour.mask_before"): row.weights}
    shares = (left, 1.0, lost, row.allowed.mean(), left / 2)
    before = pictures.row_bars(view, row, softmax(row.scores))
    drawn = [before], [pictures.two_rows(view, row, pair)]
    return Posed(shares, {"lost": lost}, *drawn, row, FILLED, spelt=percent)


def zero(view: View) -> Posed:
    """The query whose leak is closest to a target if blocked scores are multiplied by 0."""
    row, wrong, leaked = _planted(view, multiplied_by_zero, 0.2, 0.6)
    count, lost = int((~row.allowed).sum()), softmax(row.scores)[~row.allowed].sum()
    shares = (leaked, "0 %", lost, count / len(row.scores), 1.0)
    words = {"count": count, "sum": digits(count / leaked - count)}
    pair = {view.t("tour.times_zero"): wrong, view.t("tour.minus_infinity"): row.weights}
    drawn = [pictures.scores_of(row)], [pictures.two_rows(view, row, pair)]
    return Posed(shares, words, *drawn, row, FILLED, spelt=percent)


def padding(view: View) -> Posed:
    """Run the text followed by PADs: the mask of the encoder or of a decoder-only model."""
    require(view.loaded.marks.pad is not None, "no_pad")
    place, role = {"pads": PADS}, "encoder" if view.sites_of("encoder") else view.own_role
    padded = cache.trace(replace(view.run, target=None, pads=PADS))
    site = padded.sites_of(role)[0]
    mask = padded.mask(site.name)[0]
    visible, whole = int(mask.sum()), len(mask)
    n = whole - PADS
    causal = role == "decoder"
    wrong = (n * n, whole * whole, whole * whole - PADS**2)
    if causal:
        wrong = (n * (n + 1) // 2, whole * (whole + 1) // 2, whole * n)
    require(visible == (n * (n + 1) // 2 + n * PADS if causal else n * whole), "windowed")
    row, tokens = row_of(padded, site, 0, 0), padded.query_tokens(site.name)
    words = {"count": n, "pads": PADS, "cells": whole * whole}
    drawn = [pictures.strip(view, site.query_stream, tokens)], [_masked(view, row, **place)]
    return Posed((visible, *wrong), words, *drawn, row, place)


def _filled(view: View) -> tuple[QueryRow, dict[tuple[str, str], ResultRow], list[Exhibited]]:
    """The third query of the first self-attention head, the result of every fill and dtype if its
    row is fully masked, and the picture of these."""
    site = view.sites_of(view.own_role)[0]
    require(len(view.trace.query_tokens(site.name)) >= 3, "short")
    row = row_of(view.trace, site, 0, 2)
    drawn = Exhibited("masks.fills", "cases.fill.grids", row.place, 1)
    results = zip(product(FILLS, DTYPES), drawn.answer(view).rows, strict=True)
    return row, dict(results), [drawn]


def empty(view: View) -> Posed:
    """A fully masked row of -inf, compared with what other fills make of it."""
    row, results, after = _filled(view)

    def becomes(kind: str) -> str:
        return spelt(view, (kind, 1 / len(row.weights))).replace("\n", " ")

    kind_of = {fill: results[fill, "float32"].outcomes[1][0] for fill in FILLS}
    kinds = (kind_of["infinity"], "uniform", "zero", "unmasked")
    words = {"billion": becomes(kind_of["billion"]), "own": becomes(kind_of["zeroed"])}
    options, before = [becomes(kind) for kind in kinds], [pictures.softmax_of(row)]
    return Posed(options, words, before, after, row, FILLED, names=kinds)


def half(view: View) -> Posed:
    """The fill value that torch rejects in float16."""
    row, results, after = _filled(view)
    refused = [fill for fill in FILLS if results[fill, "float16"].outcomes[0][0] == "refused"]
    require(len(refused) == 1, "alike")
    others = [fill for fill in FILLS if fill not in (*refused, "zeroed")]
    options = [named(view, FILLS[fill]) for fill in (*refused, *others)]
    return Posed(options, {}, [pictures.softmax_of(row)], after, row, FILLED)
