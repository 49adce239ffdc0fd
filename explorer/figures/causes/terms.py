"""Terms of a sum: a bar ranking, and a matrix of products with two rankings at its sides."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from explorer.figures.frame import (
    BAR_ROOM,
    LEGEND,
    Figure,
    Floats,
    Words,
    axis,
    check_shape,
    colorbar,
    ends,
    layout,
    number_axis,
)
from explorer.figures.theme import Palette, Stream, colorscale, escape, palette
from explorer.numbers import signed

ROW, COLUMN = 24, 46
"""Pixels of one writer: height of a row, and width of a column."""
BARS, NAMES, ABOVE = 150, 130, 120
"""Pixels of the ranking next to the matrix, of the row names, and of the ranking above it."""


def ranking(
    names: Sequence[str],
    values: Floats,
    *,
    free: Floats | None = None,
    title: str,
    dark: bool = False,
    words: Words,
) -> Figure:
    """The terms of a sum [term] as bars, the first on top; diamonds show the alternative values
    `free`.

    NaN in `free` draws none. Raises ValueError with the sizes if they disagree.
    """
    check_shape("values", values, (len(names),))
    colours = palette(dark)
    labels = _labels(names)
    traces: list[Figure] = [_bars(labels, values, colours, words["frozen"], across=True)]
    if free is not None:
        check_shape("free", free, (len(names),))
        traces.append(_diamonds(labels, free, colours, words["free"], across=True))
        traces.append(_gaps(labels, values, free, colours, words["left"], across=True))
    frame = layout(colours, 60 + ROW * len(names), showlegend=free is not None, legend=LEGEND)
    frame |= {"bargap": 0.25, "barmode": "overlay"}
    frame["meta"] = {"least": NAMES + 220}
    frame["xaxis"] = number_axis(colours, title, zeroline=True, zerolinecolor=colours.muted)
    frame["yaxis"] = axis(colours, autorange="reversed", type="category")
    return {"data": traces, "layout": frame}


def products(
    matrix: Floats,
    rows: Sequence[str],
    columns: Sequence[str],
    by_row: Floats,
    by_column: Floats,
    free_rows: Floats,
    free_columns: Floats,
    *,
    titles: tuple[str, str],
    streams: tuple[Stream, Stream],
    dark: bool = False,
    words: Words,
) -> Figure:
    """Products [row, column] as a matrix, with row sums next to it and column sums above it.

    `by_row` and `by_column` may have more terms than the matrix has rows or columns: terms outside
    the products are drawn as bars only. `free_rows` and `free_columns` are diamonds on the bars
    (NaN: none). Raises ValueError with the sizes if they disagree.
    """
    check_shape("by_row", by_row, (len(rows),))
    check_shape("by_column", by_column, (len(columns),))
    check_shape("free_rows", free_rows, (len(rows),))
    check_shape("free_columns", free_columns, (len(columns),))
    colours = palette(dark)
    down, across = _labels(rows), _labels(columns)
    n_down, n_across = matrix.shape
    limit = float(np.abs(matrix).max(initial=1e-9))
    heatmap = {
        "type": "heatmap",
        "x": across[:n_across],
        "y": down[:n_down],
        "z": np.asarray(matrix, np.float32),
        "zmin": -limit,
        "zmax": limit,
        "xgap": 1,
        "ygap": 1,
        "colorscale": colorscale(colours.diverging),
        "colorbar": colorbar(
            colours, words["product"], tickvals=[-limit, 0, limit], ticktext=ends(limit, 3, "+")
        ),
        "hovertemplate": f"{escape(words['query'])} <b>%{{y}}</b><br>{escape(words['key'])} "
        "<b>%{x}</b><br><b>%{z:+.3f}</b><extra></extra>",
    }
    beside = {"xaxis": "x2", "yaxis": "y"}
    above = {"xaxis": "x", "yaxis": "y2"}
    traces = [
        heatmap,
        _bars(down, by_row, colours, words["frozen"], across=True) | beside,
        _diamonds(down, free_rows, colours, words["free"], across=True) | beside,
        _bars(across, by_column, colours, words["frozen"], across=False)
        | {**above, "showlegend": False},
        _diamonds(across, free_columns, colours, words["free"], across=False)
        | {**above, "showlegend": False},
        _gaps(down, by_row, free_rows, colours, words["left"], across=True) | beside,
        _gaps(across, by_column, free_columns, colours, words["left"], across=False)
        | {**above, "showlegend": False},
    ]
    inside = ROW * len(rows)
    height = ABOVE + inside + BAR_ROOM + 90
    wide = COLUMN * len(columns)
    split_x, split_y = wide / (wide + BARS), inside / (inside + ABOVE)
    frame = layout(colours, height, showlegend=True, legend=LEGEND, bargap=0.25, barmode="overlay")
    frame["margin"]["b"] = BAR_ROOM
    frame["meta"] = {"least": NAMES + wide // 2 + BARS}
    zero: Figure = {"zeroline": True, "zerolinecolor": colours.muted, "nticks": 6}
    turned = {"type": "category", "categoryarray": across, "categoryorder": "array"}
    frame["xaxis"] = axis(
        colours, titles[1], colours.stream(streams[1]), domain=[0, split_x - 0.02],
        tickangle=-90, **turned,
    )  # fmt: skip
    frame["yaxis"] = axis(
        colours, titles[0], colours.stream(streams[0]), domain=[0, split_y - 0.02],
        autorange="reversed", type="category", categoryarray=down, categoryorder="array",
    )  # fmt: skip
    frame["xaxis2"] = number_axis(colours, domain=[split_x, 1], anchor="y", **zero)
    frame["yaxis2"] = number_axis(colours, domain=[split_y, 1], anchor="x", **zero)
    return {"data": traces, "layout": frame}


def _labels(names: Sequence[str]) -> list[str]:
    """Names made unique as categories: Plotly would merge bars of the same name."""
    return [escape(name) + "\u200b" * (at + 1) for at, name in enumerate(names)]


def _bars(
    labels: Sequence[str], values: Floats, colours: Palette, name: str, *, across: bool
) -> Figure:
    """Bars coloured by sign."""
    lengths = np.asarray(values, np.float32)
    low, high = colours.diverging[1], colours.diverging[3]
    bars: dict[str, Any] = {
        "type": "bar",
        "name": escape(name),
        "text": [signed(float(value), 3) for value in values],
        "textposition": "none",
        "marker": {"color": [high if value >= 0 else low for value in values]},
        "hovertemplate": "<b>%{text}</b><extra>" + escape(name) + "</extra>",
    }
    if across:
        return bars | {"orientation": "h", "y": list(labels), "x": lengths}
    return bars | {"x": list(labels), "y": lengths}


def _gaps(
    labels: Sequence[str],
    values: Floats,
    free: Floats,
    colours: Palette,
    name: str,
    *,
    across: bool,
) -> Figure:
    """Thin bars from each value to its alternative in `free`; none if that is NaN."""
    length = np.asarray(free - values, np.float32)
    along, other = ("x", "y") if across else ("y", "x")
    return {
        "type": "bar",
        "orientation": "h" if across else "v",
        "name": escape(name),
        other: list(labels),
        along: length,
        "base": np.asarray(values, np.float32).tolist(),  # Plotly accepts no binary array here
        "width": 0.22,
        "text": ["" if np.isnan(value) else signed(float(value), 3) for value in length],
        "textposition": "none",
        "marker": {"color": colours.muted, "opacity": 0.55},
        "hovertemplate": "<b>%{text}</b><extra>" + escape(name) + "</extra>",
    }


def _diamonds(
    labels: Sequence[str], values: Floats, colours: Palette, name: str, *, across: bool
) -> Figure:
    places = np.asarray(values, np.float32)
    marks: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "name": escape(name),
        "text": ["" if np.isnan(value) else signed(float(value), 3) for value in values],
        "marker": {"symbol": "diamond-open", "size": 8, "color": colours.ink},
        "hovertemplate": "<b>%{text}</b><extra>" + escape(name) + "</extra>",
    }
    where = {"y": list(labels), "x": places} if across else {"x": list(labels), "y": places}
    return marks | where
