"""Bars: one row of attention."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from explorer.figures.frame import (
    Bools,
    Figure,
    Floats,
    Words,
    check_shape,
    layout,
    least_width,
    number_axis,
    token_axis,
    token_labels,
    upright,
)
from explorer.figures.theme import Palette, Stream, escape, palette
from explorer.numbers import percents

ROOM = 420
"""The approximate width of a row's bars in pixels; only the browser knows it exactly."""


def row(
    tokens: Sequence[str],
    weights: Floats,
    *,
    stream: Stream | None = None,
    allowed: Bools | None = None,
    head_names: Sequence[str] = (),
    title: str,
    dark: bool = False,
    words: Words,
) -> Figure:
    """One query's row over the key tokens: weights [key], or [head, key] with `head_names`.

    With heads the bar is their mean and each head a dot, so that agreement and outliers show.
    `allowed` [key] False marks blocked keys, hatched up to the full height of the plot.

    Raises ValueError naming the sizes when they disagree.
    """
    n = len(tokens)
    by_head = np.atleast_2d(np.asarray(weights, np.float32)) * 100
    check_shape("weights", by_head, (max(len(head_names), 1), n))
    open_keys = np.ones(n, bool) if allowed is None else allowed
    check_shape("allowed", open_keys, (n,))
    colours = palette(dark)
    names = token_labels(tokens, dark)
    mean = by_head.mean(axis=0)
    top = max(float(by_head.max(initial=0.0)), 1.0) * 1.1
    bar = {
        "type": "bar",
        "x": names,
        "y": np.where(open_keys, mean, top).astype(np.float32),
        "text": np.where(open_keys, percents(mean / 100), escape(words["blocked"])),
        "textposition": "none",
        "marker": {
            "color": np.where(open_keys, colours.attention[2], colours.hatch),
            "pattern": _hatched(np.where(open_keys, "", "/"), colours),
        },
        "hovertemplate": "<b>%{x}</b><br>%{text}"
        + (f" · {escape(words['mean'])}" if head_names else "")
        + "<extra></extra>",
    }
    traces = [bar]
    if head_names:
        seen = np.flatnonzero(open_keys)
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": np.tile(np.array(names, object)[seen], len(head_names)),
                "y": by_head[:, seen].ravel(),
                "text": np.repeat([escape(name) for name in head_names], len(seen)),
                "marker": {"color": colours.accent, "size": 5, "opacity": 0.7},
                "hovertemplate": "%{text} → <b>%{x}</b> %{y:.1f} %<extra></extra>",
            }
        )
    frame = layout(colours, 260, bargap=0.2, meta={"least": least_width(tokens, ROOM)})
    labels = upright(tokens, dark, ROOM, below=True)
    frame["xaxis"] = token_axis(names, title, stream, dark, **labels)
    frame["yaxis"] = number_axis(
        colours, words["weight"], ticksuffix=" %", range=[0, top], nticks=5
    )
    return {"data": traces, "layout": frame}


def _hatched(shape: NDArray[np.str_], colours: Palette) -> Figure:
    """Plotly's bar pattern in the hatching of blocked cells.

    Where every bar has its own colour, that colour also draws the lines of its pattern, so the
    hatched bars' own colour is `hatch` and only the ground is named here.
    """
    return {"shape": shape, "bgcolor": colours.blocked, "size": 6, "solidity": 0.2}
