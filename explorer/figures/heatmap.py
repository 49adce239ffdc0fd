"""The one large attention heatmap, and the difference of two.

Queries run down, keys run across, as in the formula softmax(q·kᵀ)·v. A blocked cell is not a small
weight: it is left out of the colour scale and shows the hatching behind the trace instead.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from explorer.figures.frame import (
    BAR_ROOM,
    LEVEL,
    Bools,
    Figure,
    Floats,
    Words,
    check_shape,
    colorbar,
    ends,
    layout,
    least_width,
    levels_of,
    token_axis,
    token_labels,
    upright,
)
from explorer.figures.hatching import hatching
from explorer.figures.theme import Palette, Stream, colorscale, escape, palette
from explorer.numbers import percents

Scale = Literal["linear", "log", "rank"]

ROOM = 420
"""The approximate width of all cells in pixels; only the browser knows it exactly."""

LOG_FLOOR = 1e-4
"""Weights under 0.01 % share the palest colour of the log scale."""


def attention(
    pattern: Floats,
    mask: Bools | None,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    query_title: str,
    key_title: str,
    query_stream: Stream | None = None,
    key_stream: Stream | None = None,
    blocked_labels: NDArray[np.str_] | Sequence[Sequence[str]] | None = None,
    scale: Scale = "linear",
    top: float = 1.0,
    selected: int | None = None,
    dark: bool = False,
    words: Words,
) -> Figure:
    """One head's pattern, [query, key], as a heatmap with tokens on both axes.

    `mask` is [query, key], True = may attend (None: nothing is blocked); `blocked_labels`
    [query, key] says which mask blocked a cell, in words, and is shown on hover. `scale` maps
    weights to colour: "linear" from 0 to `top`, "log" from 0.01 % to 100 %, "rank" by the order
    within each row. `selected` outlines one query's row.

    Raises ValueError naming the sizes when pattern, mask, labels and tokens disagree.
    """
    shape = (len(query_tokens), len(key_tokens))
    check_shape("pattern", pattern, shape)
    allowed = _allowed("mask", mask, shape)
    weight_text = percents(pattern)
    if blocked_labels is not None:
        labels = np.asarray(blocked_labels, dtype=object)
        check_shape("blocked_labels", labels, shape)
        weight_text = np.where(allowed, weight_text, _blocked_text(words["blocked"], labels))
    else:
        weight_text = np.where(allowed, weight_text, escape(words["blocked"]))
    colours = palette(dark)
    z, bar = _scaled(np.asarray(pattern, np.float32), allowed, scale, top, words)
    trace = {
        "colorscale": colorscale(colours.attention),
        "zmin": bar.pop("zmin"),
        "zmax": bar.pop("zmax"),
        "colorbar": colorbar(colours, **bar),
    }
    return _matrix(
        np.where(allowed, z, np.nan).astype(np.float32),
        trace,
        weight_text,
        query_tokens,
        key_tokens,
        titles=(query_title, key_title),
        streams=(query_stream, key_stream),
        blocked=~allowed,
        selected=selected,
        dark=dark,
        words=words,
    )


def difference(
    before: Floats,
    after: Floats,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    mask_before: Bools | None = None,
    mask_after: Bools | None = None,
    query_title: str,
    key_title: str,
    query_stream: Stream | None = None,
    key_stream: Stream | None = None,
    top: float | None = None,
    selected: int | None = None,
    dark: bool = False,
    words: Words,
) -> Figure:
    """after - before, [query, key], in percentage points around a neutral zero.

    `top` is the change at the ends of the scale (0 to 1); None takes the largest change there is,
    and at least one point, so that noise does not look like an effect. Cells blocked in both runs
    are hatched; a cell blocked in one of them shows its change, and hover says which.

    Raises ValueError naming the sizes when the inputs disagree.
    """
    shape = (len(query_tokens), len(key_tokens))
    check_shape("before", before, shape)
    check_shape("after", after, shape)
    open_before = _allowed("mask_before", mask_before, shape)
    open_after = _allowed("mask_after", mask_after, shape)
    blocked = ~(open_before | open_after)
    change = (np.asarray(after, np.float32) - np.asarray(before, np.float32)) * 100
    limit = 100 * top if top is not None else max(1.0, float(np.abs(change).max(initial=0.0)))
    shut = escape(words["blocked"])
    was = np.where(open_before, percents(before), shut)
    now = np.where(open_after, percents(after), shut)
    points = np.char.replace(np.char.mod("%+.1f", change), "-", "−").astype(object)
    text = f"{escape(words['before'])} " + was + f" → {escape(words['after'])} " + now
    text = text + "<br>" + points + f" {escape(words['points'])}"
    colours = palette(dark)
    trace = {
        "colorscale": colorscale(colours.diverging),
        "zmin": -limit,
        "zmax": limit,
        "colorbar": colorbar(
            colours,
            title=words["points"],
            tickvals=[-limit, 0, limit],
            ticktext=ends(limit, 3, "+"),
        ),
    }
    return _matrix(
        np.where(blocked, np.nan, change).astype(np.float32),
        trace,
        np.where(blocked, shut, text),
        query_tokens,
        key_tokens,
        titles=(query_title, key_title),
        streams=(query_stream, key_stream),
        blocked=blocked,
        selected=selected,
        dark=dark,
        words=words,
    )


def _allowed(name: str, mask: Bools | None, shape: tuple[int, int]) -> Bools:
    if mask is None:
        return np.ones(shape, bool)
    check_shape(name, mask, shape)
    if mask.dtype != np.bool_:
        raise ValueError(f"{name} is {mask.dtype}, expected bool with True = may attend")
    return mask


def _blocked_text(blocked: str, labels: NDArray[np.object_]) -> NDArray[np.object_]:
    """ "blocked: causal mask" per cell; few labels occur, so each is escaped once."""
    text = {
        label: escape(f"{blocked}: {label}" if label else blocked) for label in set(labels.flat)
    }
    return np.array([text[label] for label in labels.flat], object).reshape(labels.shape)


def _scaled(
    pattern: Floats, allowed: Bools, scale: Scale, top: float, words: Words
) -> tuple[Floats, Figure]:
    """Colour values of the cells, and the range, ticks and title of their colour bar."""
    if scale == "linear":
        ticks = [0.0, top / 2, top]
        return pattern, {
            "zmin": 0,
            "zmax": top,
            "title": words["weight"],
            "tickvals": ticks,
            "ticktext": [f"{100 * tick:.3g} %" for tick in ticks],
        }
    if scale == "log":
        low = int(np.log10(LOG_FLOOR))
        return np.log10(np.maximum(pattern, LOG_FLOOR)), {
            "zmin": low,
            "zmax": 0,
            "title": words["log_weight"],
            "tickvals": list(range(low, 1)),
            "ticktext": [f"{100 * 10.0**power:.3g} %" for power in range(low, 1)],
        }
    if scale == "rank":
        ordered = np.where(allowed, pattern, -1.0)
        rank = ordered.argsort(axis=1).argsort(axis=1).astype(np.float32)
        n_blocked = (~allowed).sum(axis=1, keepdims=True)
        span = np.maximum(allowed.sum(axis=1, keepdims=True) - 1, 1)
        return (rank - n_blocked) / span, {
            "zmin": 0,
            "zmax": 1,
            "title": words["rank"],
            "tickvals": [0, 1],
            "ticktext": [escape(words["last"]), escape(words["first"])],
        }
    raise ValueError(f"scale is {scale!r}, expected 'linear', 'log' or 'rank'")


def _matrix(
    z: Floats,
    trace: Figure,
    text: NDArray[np.object_],
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    titles: tuple[str, str],
    streams: tuple[Stream | None, Stream | None],
    blocked: Bools,
    selected: int | None,
    dark: bool,
    words: Words,
) -> Figure:
    colours = palette(dark)
    queries, keys = token_labels(query_tokens, dark), token_labels(key_tokens, dark)
    n_query, n_key = z.shape
    hover = (
        f"{escape(words['query'])} <b>%{{y}}</b><br>{escape(words['key'])} <b>%{{x}}</b>"
        "<br>%{text}<extra></extra>"
    )
    heatmap = {
        "type": "heatmap",
        "x": keys,
        "y": queries,
        "z": z,
        "text": text,
        "hovertemplate": hover,
        # A hairline between cells while they are large enough to afford one.
        "xgap": 1 if n_key <= 48 else 0,
        "ygap": 1 if n_query <= 48 else 0,
        **trace,
    }
    labels = upright(key_tokens, dark, ROOM)
    above = LEVEL * (levels_of(key_tokens, ROOM) - 1)
    frame = layout(colours, 64 + above + BAR_ROOM + _rows(n_query))
    frame["meta"] = {"least": least_width(key_tokens, ROOM, query_tokens)}
    frame["margin"]["b"] = BAR_ROOM
    frame["xaxis"] = token_axis(keys, titles[1], streams[1], dark, side="top", **labels)
    frame["yaxis"] = token_axis(queries, titles[0], streams[0], dark, autorange="reversed")
    if blocked.any():
        frame["images"] = [hatching(colours, blocked, _rows(n_query))]
    if selected is not None:
        if not 0 <= selected < n_query:
            raise ValueError(f"selected is {selected}, but there are {n_query} queries")
        frame["shapes"] = [_outline(colours, selected, n_key)]
    return {"data": [heatmap], "layout": frame}


def _rows(n_query: int) -> int:
    """Pixels of all rows together: roomy while there are few, then ever tighter."""
    return int(n_query * (30 if n_query <= 16 else max(7.0, 480 / n_query)))


def _outline(colours: Palette, query: int, n_key: int) -> Figure:
    return {
        "type": "rect",
        "x0": -0.5,
        "x1": n_key - 0.5,
        "y0": query - 0.5,
        "y1": query + 0.5,
        "line": {"color": colours.accent, "width": 2},
    }
