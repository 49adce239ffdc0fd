"""Chapter 2 of the guided tour: masks."""

import numpy as np

from explorer.exhibits import View, block as b
from explorer.exhibits.masks.fills import FILLS, LEVEL_OF, VALUES, Fill
from explorer.exhibits.tour import pictures
from explorer.exhibits.tour.asked import AlikeError, PosedStep, question, step
from explorer.exhibits.tour.found import masks as finding
from explorer.figures.outcomes import Level, outcomes
from explorer.numbers import digits, percent
from explorer.runs.edits import MaskSwitch

WITHOUT = (MaskSwitch("causal", False),)
SHOWN = ("float32", "float16")


def _purpose(view: View, found: finding.Open) -> PosedStep:
    tokens, query = view.trace.tgt_str_tokens, found.row.query
    keys = pictures.keys_of(view, found.row)
    far = [query, query - 1, 0, len(tokens) - 1]
    asks = question("purpose", keys[found.next], [keys[key] for key in far])

    def picture(answered: bool) -> b.Blocks:
        yield pictures.strip(view, tokens, "tgt", "purpose.strip", query)
        if answered:
            yield pictures.two_bars(
                tokens,
                100 * found.masked,
                100 * found.unmasked,
                (view.t("tour.with_mask"), view.t("tour.without_mask")),
                "purpose",
                title=view.t("tour.weight"),
                stream="tgt",
            )

    values = {
        **pictures.where(view, found.row),
        "next": keys[found.next],
        "ahead": percent(found.ahead),
    }
    return PosedStep(asks, values, picture, pictures.place_of(found.row) | {"edits": WITHOUT})


def _sees(view: View, found: finding.VisibleKeys) -> PosedStep:
    n, query = found.n, found.row.query
    asks = question("sees", str(found.seen), [str(each) for each in (query, n, n - query, 1)])

    def picture(answered: bool) -> b.Blocks:
        if answered:
            yield pictures.mask(view, view.trace, found.row, "sees", (query, query))
        else:
            yield pictures.strip(view, view.trace.tgt_str_tokens, "tgt", "sees.strip", query)

    values = {
        **pictures.where(view, found.row),
        "place": query + 1,
        "all": n,
        "seen": found.seen,
        "later": n - found.seen,
    }
    return PosedStep(asks, values, picture, pictures.place_of(found.row))


def _blocked(view: View, found: finding.Blocked) -> PosedStep:
    n = found.n
    wrong = [found.open, n * n // 2, n * n - n, n * (n - 1) // 2 + n - 1]
    asks = question("blocked", str(found.blocked), [str(each) for each in wrong])

    def picture(answered: bool) -> b.Blocks:
        if answered:
            yield pictures.mask(view, view.trace, found.row, "blocked", None)
        else:
            yield pictures.strip(view, view.trace.tgt_str_tokens, "tgt", "blocked.strip", None)

    values = {"all": n, "cells": n * n, "blocked": found.blocked, "open": found.open}
    return PosedStep(asks, values, picture, pictures.place_of(found.row))


def _after(view: View, found: finding.Unmasked) -> PosedStep:
    asks = question(
        "after",
        percent(found.left),
        [
            percent(1.0),
            percent(1 - found.left),
            percent(float(found.allowed.mean())),
            percent(found.left / 2),
        ],
    )

    def picture(answered: bool) -> b.Blocks:
        if not answered:
            yield pictures.row_bars(view, found.row, found.raw, "after")
            return
        yield pictures.two_bars(
            view.trace.key_tokens(found.row.site.name),
            100 * np.where(found.allowed, found.raw, 0),
            100 * found.right,
            (view.t("tour.mask_after"), view.t("tour.mask_before")),
            "after.both",
            title=view.t("tour.weight"),
            stream=found.row.site.key_stream,
        )

    later = 1 - found.left
    values = {
        **pictures.where(view, found.row),
        "left": percent(found.left),
        "lost": percent(later),
    }
    return PosedStep(asks, values, picture, pictures.place_of(found.row) | {"part": "fills"})


def _zero(view: View, found: finding.Unmasked) -> PosedStep:
    n_blocked = int((~found.allowed).sum())
    asks = question(
        "zero",
        percent(found.leaked),
        ["0 %", percent(1 - found.left), percent(n_blocked / len(found.allowed)), percent(1.0)],
    )

    def picture(answered: bool) -> b.Blocks:
        if not answered:
            yield pictures.scores_map(view, found.row, "zero.scores")
            return
        yield pictures.two_bars(
            view.trace.key_tokens(found.row.site.name),
            100 * found.zeroed,
            100 * found.right,
            (view.t("tour.times_zero"), view.t("tour.minus_infinity")),
            "zero",
            title=view.t("tour.weight"),
            stream=found.row.site.key_stream,
        )

    values = {
        **pictures.where(view, found.row),
        "count": n_blocked,
        "leaked": percent(found.leaked),
        "sum": digits(n_blocked / found.leaked - n_blocked),
    }
    return PosedStep(asks, values, picture, pictures.place_of(found.row) | {"part": "fills"})


def _padding(view: View, found: finding.PaddedMask) -> PosedStep:
    n, whole = found.n, found.n + found.pads
    wrong = [whole * n, n * n, whole * whole, whole * whole - found.pads**2]
    if found.causal:
        wrong = [n * (n + 1) // 2, whole * (whole + 1) // 2, whole * n, n * n]
    asks = question("padding", str(found.open), [str(each) for each in wrong])

    def picture(answered: bool) -> b.Blocks:
        if answered:
            yield pictures.mask(view, found.traced, found.row, "padding", None)
            return
        stream = found.row.site.query_stream
        tokens = found.traced.query_tokens(found.row.site.name)
        yield pictures.strip(view, tokens, stream, "padding.strip", None)

    values = {
        "kind": view.t(f"kinds.{found.row.site.role}"),
        "count": n,
        "pads": found.pads,
        "whole": whole,
        "cells": whole * whole,
        "open": found.open,
    }
    place = pictures.place_of(found.row) | {"pads": found.pads}
    return PosedStep(asks, values, picture, place, "told_causal" if found.causal else "told")


def _empty(view: View, found: finding.Filling) -> PosedStep:
    right = found.of("infinity", "float32").empty

    def name(empty: str) -> str:
        share = percent(1 / len(found.weights))
        return view.t(f"masks.empty_{empty}", share=share).replace("\n", " ")

    wrong = ("uniform", "zero", "unmasked")
    names = {name(each): each for each in (right, *wrong)}
    asks = question("empty", name(right), [name(each) for each in wrong], names)
    values = {
        **pictures.where(view, found.row),
        "billion": name(found.of("billion", "float32").empty),
        "own": name(found.of("zeroed", "float32").empty),
    }
    place = pictures.place_of(found.row) | {"part": "fills"}
    return PosedStep(asks, values, lambda answered: _fills(view, found, answered, "empty"), place)


def _half(view: View, found: finding.Filling) -> PosedStep:
    refused = [fill for fill in FILLS if found.of(fill, "float16").refused]
    if len(refused) != 1:
        raise AlikeError

    def name(fill: Fill) -> str:
        return VALUES.get(fill) or view.t("masks.fill_zeroed")

    others = [name(fill) for fill in FILLS if fill not in refused and fill != "zeroed"]
    asks = question("half", name(refused[0]), others)
    values = {"value": name(refused[0]), "most": "65,504", "lowest": digits(-65504, 5)}
    place = pictures.place_of(found.row) | {"part": "fills"}
    return PosedStep(asks, values, lambda answered: _fills(view, found, answered, "half"), place)


def _fills(view: View, found: finding.Filling, answered: bool, key: str) -> b.Blocks:
    """The weights of the query with every fill value; before the answer, the original weights
    only."""
    if not answered:
        yield pictures.row_bars(view, found.row, found.weights, f"{key}.row")
        return
    cells = [[found.of(fill, dtype) for dtype in SHOWN] for fill in FILLS]
    levels: list[list[Level]] = [
        ["loud" if each.refused else LEVEL_OF[each.empty] for each in line] for line in cells
    ]
    share = percent(1 / len(found.weights))
    texts = [
        [
            view.t(
                "masks.fill_refused" if each.refused else f"masks.empty_{each.empty}", share=share
            )
            for each in line
        ]
        for line in cells
    ]
    names = [VALUES.get(fill) or view.t("masks.fill_zeroed") for fill in FILLS]
    alt = pictures.title_of(view, key)
    yield pictures.chart(key, alt, outcomes, levels, texts, names, list(SHOWN))


STEPS = (
    step("purpose", "masks", finding.purpose, _purpose, r"m_{ij} = [\,j \le i\,]"),
    step(
        *("sees", "masks", finding.sees, _sees),
        r"\#\{\,j : j \le i\,\} = i + 1,\qquad i = 0, 1, \dots",
    ),
    step(
        "blocked", "masks", finding.blocked, _blocked, r"n^2 - \frac{n(n+1)}{2} = \frac{n(n-1)}{2}"
    ),
    step(
        *("after", "masks", finding.after, _after),
        r"\sum_{j \le i} \frac{e^{s_{ij}}}{\sum_{k} e^{s_{ik}}} < 1 = "
        r"\sum_{j \le i} \frac{e^{s_{ij}}}{\sum_{k \le i} e^{s_{ik}}}",
    ),
    step(*("zero", "masks", finding.zero, _zero), r"e^{0} = 1,\qquad e^{-\infty} = 0"),
    step(
        *("padding", "masks", finding.padding, _padding),
        r"m_{ij} = [\,j\ \text{real}\,]",
        told=("told", "told_causal"),
    ),
    step(
        "empty",
        "masks",
        finding.filling,
        _empty,
        r"\frac{e^{-\infty}}{\sum_k e^{-\infty}} = \frac{0}{0}",
    ),
    step("half", "masks", finding.filling, _half, r"\mathrm{float16}:\ |x| \le 65504"),
)
