"""Figures of one attention cell: dimensions, products, scores, effect on logits."""

from collections.abc import Sequence

import numpy as np

from explorer.figures.frame import (
    BAR_ROOM,
    LEGEND,
    Bools,
    Figure,
    Floats,
    Words,
    axis,
    check_shape,
    colorbar,
    layout,
    least_width,
    number_axis,
    token_axis,
    token_labels,
    upright,
)
from explorer.figures.theme import Stream, colorscale, escape, palette

ROOM, MATRIX_ROOM = 900, 300
"""Approximate widths of a row of bars and of a matrix in pixels; only the browser knows them
exactly."""


def vectors(
    values: Floats,
    names: Sequence[str],
    streams: Sequence[Stream | None],
    *,
    dark: bool = False,
    words: Words,
) -> Figure:
    """Vectors [vector, dimension] as bars side by side, one colour per vector, with a legend.

    A vector of a stream has the stream's colour; `None` is indigo. Raises ValueError with the sizes
    if they disagree.
    """
    colours = palette(dark)
    check_shape("values", values, (len(names), values.shape[-1]))
    traces = [
        {
            "type": "bar",
            "name": escape(name),
            "x": np.arange(values.shape[1]),
            "y": np.asarray(vector, np.float32),
            "marker": {
                "color": colours.accent if stream is None else colours.stream(stream),
                "pattern": {"shape": "/" if index % 2 else "", "bgcolor": colours.paper, "size": 5},
            },
            "hovertemplate": f"{escape(name)} [%{{x}}]: <b>%{{y:.3f}}</b><extra></extra>",
        }
        for index, (name, vector, stream) in enumerate(zip(names, values, streams, strict=True))
    ]
    frame = layout(colours, 300, showlegend=True, legend=LEGEND, barmode="group", bargap=0.25)
    frame["xaxis"] = number_axis(colours, words["dimension"], showgrid=False)
    frame["yaxis"] = number_axis(colours, zeroline=True, zerolinecolor=colours.line)
    return {"data": traces, "layout": frame}


def products(values: Floats, *, dark: bool = False, words: Words) -> Figure:
    """The products [dimension] of q and k as signed bars, and their cumulative sum as a line."""
    colours = palette(dark)
    dims = np.arange(len(values))
    bars = {
        "type": "bar",
        "x": dims,
        "y": np.asarray(values, np.float32),
        "marker": {"color": _signs(values, dark)},
        "hovertemplate": "q × k [%{x}]: <b>%{y:.3f}</b><extra></extra>",
    }
    line = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": dims,
        "y": np.cumsum(values).astype(np.float32),
        "line": {"color": colours.accent, "width": 2, "shape": "hv"},
        "marker": {"size": 4},
        "name": escape(words["sum"]),
        "hovertemplate": f"{escape(words['sum'])}: <b>%{{y:.3f}}</b><extra></extra>",
    }
    bars["name"] = "q × k"
    frame = layout(colours, 300, showlegend=True, legend=LEGEND, bargap=0.25)
    frame["xaxis"] = number_axis(colours, words["dimension"], showgrid=False)
    frame["yaxis"] = number_axis(colours, zeroline=True, zerolinecolor=colours.line)
    return {"data": [bars, line], "layout": frame}


def _signs(values: Floats, dark: bool) -> list[str]:
    """Colours by sign: blue above zero, red below, as in all figures of differences."""
    low, high = palette(dark).diverging[1], palette(dark).diverging[-2]
    return [high if value >= 0 else low for value in values]


def signed(
    labels: Sequence[str],
    values: Floats,
    *,
    title: str,
    stream: Stream | None = None,
    axis_title: str = "",
    allowed: Bools | None = None,
    marked: int | None = None,
    dark: bool = False,
    words: Words,
) -> Figure:
    """Signed numbers by token: the scores of a query, or the change of each logit.

    Bars with `allowed` [label] False are hatched grey: the mask blocks that key. `marked`
    outlines one bar. Raises ValueError with the sizes if they disagree.
    """
    colours = palette(dark)
    check_shape("values", values, (len(labels),))
    is_open = np.ones(len(labels), bool) if allowed is None else allowed
    check_shape("allowed", is_open, (len(labels),))
    shown = token_labels(labels, dark)
    fill = [
        color if free else colours.hatch
        for color, free in zip(_signs(values, dark), is_open, strict=True)
    ]
    trace = {
        "type": "bar",
        "x": shown,
        "y": np.asarray(values, np.float32),
        "text": np.where(is_open, "", escape(f" · {words['blocked']}")),
        "textposition": "none",
        "marker": {
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
        "hovertemplate": "<b>%{x}</b> %{y:.3f}%{text}<extra></extra>",
    }
    frame = layout(colours, 280, bargap=0.3, meta={"least": least_width(labels, ROOM)})
    ticks = upright(labels, dark, ROOM, below=True)
    frame["xaxis"] = token_axis(shown, axis_title, stream, dark, **ticks)
    frame["yaxis"] = number_axis(
        colours, title, nticks=5, zeroline=True, zerolinecolor=colours.muted
    )
    return {"data": [trace], "layout": frame}


def histogram(
    scores: Floats, limit: float, *, bins: int = 41, dark: bool = False, words: Words
) -> Figure:
    """A histogram of scores from -`limit` to `limit`."""
    colours = palette(dark)
    edges = np.linspace(-limit, limit, bins + 1)
    counts, _ = np.histogram(np.clip(scores, -limit, limit), edges)
    trace = {
        "type": "bar",
        "x": (edges[:-1] + edges[1:]) / 2,
        "y": counts,
        "width": np.diff(edges),
        "marker": {"color": colours.attention[2]},
        "hovertemplate": f"{escape(words['score'])} %{{x:.1f}}: <b>%{{y}}</b><extra></extra>",
    }
    frame = layout(colours, 260, bargap=0)
    frame["xaxis"] = number_axis(colours, words["score"], range=[-limit, limit], showgrid=False)
    frame["yaxis"] = number_axis(colours, words["count"], nticks=5)
    return {"data": [trace], "layout": frame}


def matrix(
    values: Floats,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    title: str,
    streams: tuple[Stream | None, Stream | None] = (None, None),
    limit: float | None = None,
    marked: tuple[int, int] | None = None,
    dark: bool = False,
    words: Words,
) -> Figure:
    """Signed numbers [query, key] on a diverging colour scale from -`limit` to `limit`.

    `marked` (query, key) is outlined. Raises ValueError with the sizes if they disagree.
    """
    colours = palette(dark)
    check_shape("values", values, (len(query_tokens), len(key_tokens)))
    top = float(np.abs(values).max(initial=1e-6)) if limit is None else limit
    queries, keys = token_labels(query_tokens, dark), token_labels(key_tokens, dark)
    hover = f"{escape(words['query'])} <b>%{{y}}</b><br>{escape(words['key'])} <b>%{{x}}</b><br>"
    trace = {
        "type": "heatmap",
        "x": keys,
        "y": queries,
        "z": np.asarray(values, np.float32),
        "colorscale": colorscale(colours.diverging),
        "zmin": -top,
        "zmax": top,
        "xgap": 1,
        "ygap": 1,
        "colorbar": colorbar(colours, title, len=160),
        "hovertemplate": f"{hover}{escape(title)} <b>%{{z:.3f}}</b><extra></extra>",
    }
    rows = int(len(queries) * (24 if len(queries) <= 16 else max(7.0, 400 / len(queries))))
    least = least_width(key_tokens, MATRIX_ROOM, query_tokens)
    frame = layout(colours, 64 + BAR_ROOM + rows, meta={"least": least})
    frame["margin"]["b"] = BAR_ROOM
    ticks = upright(key_tokens, dark, MATRIX_ROOM)
    frame["xaxis"] = token_axis(keys, words["key"], streams[1], dark, side="top", **ticks)
    frame["yaxis"] = token_axis(queries, words["query"], streams[0], dark, autorange="reversed")
    if marked is not None:
        query, key = marked
        box = {"x0": key - 0.5, "x1": key + 0.5, "y0": query - 0.5, "y1": query + 0.5}
        frame["shapes"] = [{"type": "rect", "line": {"color": colours.accent, "width": 2}, **box}]
    return {"data": [trace], "layout": frame}


def groups(group_of: Sequence[int], *, dark: bool = False, words: Words) -> Figure:
    """Query heads above, key/value heads below, with a line from each query head to the one it
    reads."""
    colours = palette(dark)
    n_heads, n_kv = len(group_of), max(group_of) + 1
    below = (np.arange(n_kv) + 0.5) * n_heads / n_kv - 0.5
    xs = np.array([[head, below[kv], np.nan] for head, kv in enumerate(group_of)], float)
    line = {
        "type": "scatter",
        "mode": "lines",
        "x": xs.ravel(),
        "y": np.tile([1.0, 0.0, np.nan], n_heads),
        "line": {"color": colours.line, "width": 2},
        "hoverinfo": "skip",
    }
    dots = {
        "type": "scatter",
        "mode": "markers+text",
        "x": np.concatenate([np.arange(n_heads), below]),
        "y": np.array([1.0] * n_heads + [0.0] * n_kv),
        "text": [str(index + 1) for index in (*range(n_heads), *range(n_kv))],
        "textfont": {"color": colours.paper, "size": 12},
        "marker": {
            "size": 26,
            "color": [colours.accent] * n_heads + [colours.muted] * n_kv,
            "symbol": ["circle"] * n_heads + ["square"] * n_kv,
        },
        "hoverinfo": "skip",
    }
    frame = layout(colours, 200, margin={"l": 8, "r": 8, "t": 24, "b": 24})
    frame["xaxis"] = axis(colours, range=[-0.7, n_heads - 0.3], showticklabels=False)
    frame["yaxis"] = axis(
        colours,
        range=[-0.35, 1.35],
        showgrid=False,
        tickvals=[1, 0],
        ticktext=[escape(words["query_head"]), escape(words["kv_head"])],
        tickfont={"color": colours.muted},
    )
    return {"data": [line, dots], "layout": frame}
