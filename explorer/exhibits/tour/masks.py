"""Chapter 2 of the guided tour: masks."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from explorer.analysis.cases.case import ResultRow
from explorer.analysis.cases.fills import DTYPES, FILLS, filled
from explorer.exhibits import View, block as b
from explorer.exhibits.cases.outcome import level_of, named, spelt
from explorer.exhibits.tour import pictures, rows
from explorer.exhibits.tour.later import Later, later, word
from explorer.exhibits.tour.posed import Posed
from explorer.exhibits.tour.rows import QueryRow, own_role, require, row_of, scores_of, varied
from explorer.figures.outcomes import outcomes
from explorer.library import LoadedModel
from explorer.numbers import digits, percent
from explorer.numerics import softmax
from explorer.runs import trace as tracing
from explorer.runs.edits import MaskSwitch
from explorer.runs.interventions import edit_functions
from explorer.runs.rerun import rerun, rows_of
from explorer.runs.trace import Trace
from models.hooks import AttentionSite, Role

PADS = 3
"""How many PADs the step about padding adds."""
WITHOUT = (MaskSwitch("causal", False),)
FILLED = {"part": "fills"}


def _causal(loaded: LoadedModel, trace: Trace) -> tuple[AttentionSite, int]:
    """The first site with a causal mask, and the number of real tokens. Raises MissingError."""
    require(loaded.config.generates, "no_causal")
    site, n = trace.sites_of(own_role(trace))[0], int(trace.tgt_valid.sum())
    require(n >= 4, "short")
    require((trace.mask(site.name)[0] == np.tri(n, dtype=bool)).all(), "windowed")
    return site, n


def _middle(trace: Trace, n: int) -> int:
    """A query with tokens on both sides."""
    return round(varied(trace, 1, n - 3)) if n > 4 else 1


def purpose(loaded: LoadedModel, trace: Trace) -> Posed:
    """Run the tokens without the mask, and find the head whose middle query looks ahead most."""
    _, n = _causal(loaded, trace)
    sites, query, batch = trace.sites_of(own_role(trace)), _middle(trace, n), rows_of(trace)
    edits = edit_functions(trace.sites, WITHOUT, batch.src_valid, batch.tgt_valid)
    seen = rerun(loaded, trace, {site.hook("pattern") for site in sites}, edits)
    opened = {
        (site, head): weights[query].double().numpy()
        for site in sites
        for head, weights in enumerate(seen[site.hook("pattern")][0])
    }
    place = max(opened, key=lambda place: float(opened[place][query + 1 :].sum()))
    row, unmasked = row_of(trace, *place, query), opened[place]
    keys = rows.keys_of(trace, row)
    pair, names = (row.weights, unmasked), (word("tour.with_mask"), word("tour.without_mask"))
    strip = later(pictures.strip, "purpose.strip", "tgt", at=query)
    after = later(pictures.two_rows, row, "purpose", pair, names)
    options = [keys[key] for key in (query + 1, query, query - 1, 0, n - 1)]
    words = {"next": options[0], "ahead": percent(unmasked[query + 1 :].sum())}
    return Posed(options, words, [strip], [strip, after], row, {"edits": WITHOUT})


def sees(loaded: LoadedModel, trace: Trace) -> Posed:
    """How many keys a query in the middle may attend to."""
    site, n = _causal(loaded, trace)
    query = max(2, _middle(trace, n))
    row = row_of(trace, site, 0, query)
    seen = int(row.allowed.sum())
    options = [str(count) for count in (seen, query, n, n - query, 1)]
    words = {"place": query + 1, "all": n, "seen": seen, "later": n - seen}
    before = later(pictures.strip, "sees.strip", "tgt", at=query)
    after = _matrix("sees", row, mask_cell=(site.role, query, query))
    return Posed(options, words, [before], [after], row)


def _matrix(step: str, row: QueryRow, **place: Any) -> Later[b.Block]:
    """The mask of a head."""
    return later(_mask, step, row.site.role, **row.place, **place)


def _mask(view: View, step: str, role: Role, **place: Any) -> b.Block:
    """The matrix of this kind of attention among those of a layer."""
    picture = pictures.exhibited(view, step, "masks.matrices", "masks.matrices", **place)
    assert isinstance(picture, b.Matrices)
    return replace(picture, panels=(picture.panels[view.kinds.index(role)],))


def blocked(loaded: LoadedModel, trace: Trace) -> Posed:
    """Count the cells of the causal mask."""
    site, n = _causal(loaded, trace)
    row, mask = row_of(trace, site, 0, 0), trace.mask(site.name)[0]
    right, visible = int((~mask).sum()), int(mask.sum())
    counts = (right, visible, n * n // 2, n * n - n, n * (n - 1) // 2 + n - 1)
    words = {"all": n, "cells": n * n, "blocked": right, "open": visible}
    before = later(pictures.strip, "blocked.strip", "tgt")
    return Posed(
        [str(option) for option in counts], words, [before], [_matrix("blocked", row)], row
    )


def _near(
    loaded: LoadedModel,
    trace: Trace,
    measure: Callable[[QueryRow, np.ndarray], float],
    low: float,
    high: float,
) -> tuple[QueryRow, np.ndarray, np.ndarray]:
    """The row whose `measure` is closest to a number from `low` to `high`, its scores, and its
    weights computed from them."""
    _, n = _causal(loaded, trace)
    wanted = varied(trace, low, high)

    def worth(row: QueryRow) -> float | None:
        is_inside = 0 < row.query < n - 1
        return -abs(measure(row, scores_of(trace, row)) - wanted) if is_inside else None

    row = rows.best_row(trace, own_role(trace), "flat", worth)
    scores = scores_of(trace, row)
    require(0.02 < measure(row, scores) < 0.98, "flat")
    return row, scores, softmax(np.where(row.allowed, scores, -np.inf))


def _left(row: QueryRow, scores: np.ndarray) -> float:
    """The sum of a row's weights if blocked ones are set to 0 after the softmax."""
    return float(softmax(scores)[row.allowed].sum())


def _zeroed(row: QueryRow, scores: np.ndarray) -> np.ndarray:
    """A row's weights if blocked scores are 0 instead of minus infinity."""
    return softmax(np.where(row.allowed, scores, 0.0))


def _leaked(row: QueryRow, scores: np.ndarray) -> float:
    """The weight on blocked keys if their scores are 0."""
    return float(_zeroed(row, scores)[~row.allowed].sum())


def after(loaded: LoadedModel, trace: Trace) -> Posed:
    """The query whose row sum is closest to a target if the mask follows the softmax."""
    row, scores, right = _near(loaded, trace, _left, 0.3, 0.7)
    left, raw = _left(row, scores), softmax(scores)
    names = word("tour.mask_after"), word("tour.mask_before")
    pair = np.where(row.allowed, raw, 0), right
    shares = (left, 1.0, 1 - left, row.allowed.mean(), left / 2)
    before = later(pictures.row_bars, row, "after", raw)
    after = later(pictures.two_rows, row, "after.both", pair, names)
    words = {"left": percent(left), "lost": percent(1 - left)}
    return Posed([percent(option) for option in shares], words, [before], [after], row, FILLED)


def zero(loaded: LoadedModel, trace: Trace) -> Posed:
    """The query whose leak is closest to a target if blocked scores are multiplied by 0."""
    row, scores, right = _near(loaded, trace, _leaked, 0.2, 0.6)
    leaked, count = _leaked(row, scores), int((~row.allowed).sum())
    shares = (1 - _left(row, scores), count / len(scores), 1.0)
    options = [percent(leaked), "0 %", *(percent(share) for share in shares)]
    words = {"count": count, "leaked": options[0], "sum": digits(count / leaked - count)}
    names = word("tour.times_zero"), word("tour.minus_infinity")
    before = later(pictures.scores_map, row, "zero.scores")
    after = later(pictures.two_rows, row, "zero", (_zeroed(row, scores), right), names)
    return Posed(options, words, [before], [after], row, FILLED)


def padding(loaded: LoadedModel, trace: Trace) -> Posed:
    """Run the text followed by PADs; ask about the mask of the encoder or of a decoder-only
    model."""
    require(loaded.marks.pad is not None, "no_pad")
    padded = tracing.trace(loaded, trace.text, None, (), PADS)
    role: Role = "encoder" if trace.sites_of("encoder") else own_role(trace)
    site = padded.sites_of(role)[0]
    mask = padded.mask(site.name)[0]
    visible, whole = int(mask.sum()), len(mask)
    n = whole - PADS
    causal = not mask[0, :n].all()
    wrong = (whole * n, n * n, whole * whole, whole * whole - PADS**2)
    if causal:
        wrong = (n * (n + 1) // 2, whole * (whole + 1) // 2, whole * n, n * n)
    row, tokens = row_of(padded, site, 0, 0), padded.query_tokens(site.name)
    options = [str(option) for option in (visible, *wrong)]
    words = {"count": n, "pads": PADS, "whole": whole, "cells": whole * whole, "open": visible}
    before = later(pictures.strip, "padding.strip", site.query_stream, tokens)
    told, place = "told_causal" if causal else "told", {"pads": PADS}
    return Posed(options, words, [before], [_matrix("padding", row, **place)], row, place, told)


Filled = dict[tuple[str, str], ResultRow]


def _filled(trace: Trace) -> tuple[QueryRow, Filled]:
    """The third query of the first self-attention head, and the result of every fill and dtype if
    its row is fully masked."""
    site = trace.sites_of(own_role(trace))[0]
    require(len(trace.query_tokens(site.name)) >= 3, "short")
    row = row_of(trace, site, 0, 2)
    scores = trace.activations[site.hook("scores")][0]
    results = filled(scores, trace.mask(site.name)[0], row.query).rows
    return row, dict(zip(product(FILLS, DTYPES), results, strict=True))


def _empty(view: View, kind: str, n_keys: int) -> str:
    """What a fully masked row becomes, in one line."""
    return spelt(view, (kind, 1 / n_keys)).replace("\n", " ")


def empty(loaded: LoadedModel, trace: Trace) -> Posed:
    """A fully masked row of -inf, compared with what other fills make of it."""
    row, results = _filled(trace)
    n = len(row.weights)
    kind_of = {fill: results[fill, "float32"].outcomes[1][0] for fill in FILLS}
    kinds = (kind_of["infinity"], "uniform", "zero", "unmasked")
    words = {"billion": later(_empty, kind_of["billion"], n)}
    words |= {"own": later(_empty, kind_of["zeroed"], n)}
    options, drawn = [later(_empty, kind, n) for kind in kinds], _fills(row, results, "empty")
    return Posed(options, words, *drawn, row, FILLED, names=kinds)


def half(loaded: LoadedModel, trace: Trace) -> Posed:
    """The fill value that torch rejects in float16."""
    row, results = _filled(trace)
    refused = [fill for fill in FILLS if results[fill, "float16"].outcomes[0][0] == "refused"]
    require(len(refused) == 1, "alike")
    others = [fill for fill in FILLS if fill not in (*refused, "zeroed")]
    options = [later(named, FILLS[fill]) for fill in (*refused, *others)]
    words = {"value": options[0], "most": "65,504"}
    return Posed(options, words, *_fills(row, results, "half"), row, FILLED)


def _fills(
    row: QueryRow, results: Filled, name: str
) -> tuple[list[Later[b.Block]], list[Later[b.Block]]]:
    """The row, and what becomes of it with every fill if it is fully masked."""
    before = later(pictures.row_bars, row, f"{name}.row", row.weights)
    return [before], [later(_outcomes, name, results)]


def _outcomes(view: View, name: str, results: Filled) -> b.Matrices:
    dtypes = ["float32", "float16"]
    cells = [[results[fill, dtype].outcomes[1] for dtype in dtypes] for fill in FILLS]
    levels = [[level_of(cell) for cell in line] for line in cells]
    texts = [[spelt(view, cell) for cell in line] for line in cells]
    names = [named(view, name) for name in FILLS.values()]
    return pictures.matrix(view, name, "", outcomes, levels, texts, names, dtypes)
