"""Figures of one attention cell: dimensions, products, scores, effect on logits."""

from collections.abc import Sequence

import numpy as np

from explorer.figures import frame as f
from explorer.figures.theme import Stream, escape, palette

ROOM = 900
"""The approximate width of a row of bars in pixels; only the browser knows it exactly."""


def products(values: f.Floats, *, dark: bool = False, words: f.Words) -> f.Figure:
    """The products [dimension] of q and k as signed bars, and their cumulative sum as a line."""
    colours = palette(dark)
    dims = np.arange(len(values))
    bars = f.bar(
        dims,
        np.asarray(values, np.float32),
        name="q × k",
        marker={"color": _signs(values, dark)},
        hovertemplate="q × k [%{x}]: <b>%{y:.3f}</b><extra></extra>",
    )
    line = f.scatter(
        dims,
        np.cumsum(values).astype(np.float32),
        "lines+markers",
        line={"color": colours.accent, "width": 2, "shape": "hv"},
        marker={"size": 4},
        name=escape(words["sum"]),
        hovertemplate=f"{escape(words['sum'])}: <b>%{{y:.3f}}</b><extra></extra>",
    )
    frame = f.layout(colours, 300, legend=True, bargap=0.25)
    frame["xaxis"] = f.number_axis(colours, words["dimension"], showgrid=False)
    frame["yaxis"] = f.number_axis(colours, zeroline=True, zerolinecolor=colours.line)
    return {"data": [bars, line], "layout": frame}


def _signs(values: f.Floats, dark: bool) -> list[str]:
    """Colours by sign: blue above zero, red below, as in all figures of differences."""
    low, high = palette(dark).diverging[1], palette(dark).diverging[-2]
    return [high if value >= 0 else low for value in values]


def signed(
    labels: Sequence[str],
    values: f.Floats,
    *,
    title: str,
    stream: Stream | None = None,
    axis_title: str = "",
    allowed: f.Bools | None = None,
    marked: int | None = None,
    dark: bool = False,
    words: f.Words,
) -> f.Figure:
    """Signed numbers by token: the scores of a query, or the change of each logit.

    Bars with `allowed` [label] False are hatched grey: the mask blocks that key. `marked`
    outlines one bar. Raises ValueError with the sizes if they disagree.
    """
    colours = palette(dark)
    f.check_shape("values", values, (len(labels),))
    is_open = np.ones(len(labels), bool) if allowed is None else allowed
    f.check_shape("allowed", is_open, (len(labels),))
    shown = f.token_labels(labels, dark)
    fill = [
        color if free else colours.hatch
        for color, free in zip(_signs(values, dark), is_open, strict=True)
    ]
    trace = f.bar(
        shown,
        np.asarray(values, np.float32),
        text=np.where(is_open, "", escape(f" · {words['blocked']}")),
        textposition="none",
        marker={
            "color": fill,
            "pattern": {
                "shape": np.where(is_open, "", "/"),
                "bgcolor": colours.blocked,
                "size": 6,
                "solidity": 0.2,
            },
            "line": {
                "color": colours.accent,
                "width": [2 if index == marked else 0 for index in range(len(labels))],
            },
        },
        hovertemplate="<b>%{x}</b> %{y:.3f}%{text}<extra></extra>",
    )
    frame = f.layout(colours, 280, bargap=0.3, meta={"least": f.least_width(labels, ROOM)})
    ticks = f.upright(labels, dark, ROOM)
    frame["xaxis"] = f.token_axis(shown, axis_title, stream, dark, **ticks)
    frame["yaxis"] = f.number_axis(
        colours, title, nticks=5, zeroline=True, zerolinecolor=colours.muted
    )
    return {"data": [trace], "layout": frame}
