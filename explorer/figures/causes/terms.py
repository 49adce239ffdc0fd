"""Terms of a sum: a bar ranking, and a matrix of products with two rankings at its sides."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from explorer.figures import frame as f
from explorer.figures.theme import Palette, Stream, escape, palette
from explorer.numbers import signed

ROW, COLUMN = 24, 46
"""Pixels of one writer: height of a row, and width of a column."""
BARS, NAMES, ABOVE = 150, 130, 120
"""Pixels of the ranking next to the matrix, of the row names, and of the ranking above it."""


def ranking(
    names: Sequence[str],
    values: f.Floats,
    *,
    free: f.Floats | None = None,
    title: str,
    dark: bool = False,
    words: f.Words,
) -> f.Figure:
    """The terms of a sum [term] as bars, the first on top; diamonds show the alternative values
    `free`.

    NaN in `free` draws none. Raises ValueError with the sizes if they disagree.
    """
    f.check_shape("values", values, (len(names),))
    colours = palette(dark)
    labels = _labels(names)
    traces: list[f.Figure] = [_bars(labels, values, colours, words["frozen"], across=True)]
    if free is not None:
        f.check_shape("free", free, (len(names),))
        traces.append(_diamonds(labels, free, colours, words["free"], across=True))
        traces.append(_gaps(labels, values, free, colours, words["left"], across=True))
    frame = f.layout(colours, 60 + ROW * len(names), legend=free is not None)
    frame |= {"bargap": 0.25, "barmode": "overlay"}
    frame["meta"] = {"least": NAMES + 220}
    frame["xaxis"] = f.number_axis(colours, title, zeroline=True, zerolinecolor=colours.muted)
    frame["yaxis"] = f.axis(colours, autorange="reversed", type="category")
    return {"data": traces, "layout": frame}


def products(
    matrix: f.Floats,
    rows: Sequence[str],
    columns: Sequence[str],
    by_row: f.Floats,
    by_column: f.Floats,
    free_rows: f.Floats,
    free_columns: f.Floats,
    *,
    titles: tuple[str, str],
    streams: tuple[Stream, Stream],
    dark: bool = False,
    words: f.Words,
) -> f.Figure:
    """Products [row, column] as a matrix, with row sums next to it and column sums above it.

    `by_row` and `by_column` may have more terms than the matrix has rows or columns: terms outside
    the products are drawn as bars only. `free_rows` and `free_columns` are diamonds on the bars
    (NaN: none). Raises ValueError with the sizes if they disagree.
    """
    f.check_shape("by_row", by_row, (len(rows),))
    f.check_shape("by_column", by_column, (len(columns),))
    f.check_shape("free_rows", free_rows, (len(rows),))
    f.check_shape("free_columns", free_columns, (len(columns),))
    colours = palette(dark)
    down, across = _labels(rows), _labels(columns)
    n_down, n_across = matrix.shape
    limit = float(np.abs(matrix).max(initial=1e-9))
    heatmap = f.heatmap(
        matrix,
        colours.diverging,
        (-limit, limit),
        gap=1,
        x=across[:n_across],
        y=down[:n_down],
        colorbar=f.colorbar(
            colours, words["product"], tickvals=[-limit, 0, limit], ticktext=f.ends(limit, 3, "+")
        ),
        hovertemplate=f"{escape(words['query'])} <b>%{{y}}</b><br>{escape(words['key'])} "
        "<b>%{x}</b><br><b>%{z:+.3f}</b><extra></extra>",
    )
    beside = {"xaxis": "x2", "yaxis": "y"}
    above = {"xaxis": "x", "yaxis": "y2", "showlegend": False}
    traces = [
        heatmap,
        _bars(down, by_row, colours, words["frozen"], across=True) | beside,
        _diamonds(down, free_rows, colours, words["free"], across=True) | beside,
        _bars(across, by_column, colours, words["frozen"], across=False) | above,
        _diamonds(across, free_columns, colours, words["free"], across=False) | above,
        _gaps(down, by_row, free_rows, colours, words["left"], across=True) | beside,
        _gaps(across, by_column, free_columns, colours, words["left"], across=False) | above,
    ]
    inside = ROW * len(rows)
    height = ABOVE + inside + f.BAR_ROOM + 90
    wide = COLUMN * len(columns)
    split_x, split_y = wide / (wide + BARS), inside / (inside + ABOVE)
    frame = f.layout(colours, height, legend=True, bargap=0.25, barmode="overlay", below=f.BAR_ROOM)
    frame["meta"] = {"least": NAMES + wide // 2 + BARS}
    zero: f.Figure = {"zeroline": True, "zerolinecolor": colours.muted, "nticks": 6}
    turned = {"type": "category", "categoryarray": across, "categoryorder": "array"}
    frame["xaxis"] = f.axis(
        colours, titles[1], colours.stream(streams[1]), domain=[0, split_x - 0.02],
        tickangle=-90, **turned,
    )  # fmt: skip
    frame["yaxis"] = f.axis(
        colours, titles[0], colours.stream(streams[0]), domain=[0, split_y - 0.02],
        autorange="reversed", type="category", categoryarray=down, categoryorder="array",
    )  # fmt: skip
    frame["xaxis2"] = f.number_axis(colours, domain=[split_x, 1], anchor="y", **zero)
    frame["yaxis2"] = f.number_axis(colours, domain=[split_y, 1], anchor="x", **zero)
    return {"data": traces, "layout": frame}


def _labels(names: Sequence[str]) -> list[str]:
    """Names made unique as categories: Plotly would merge bars of the same name."""
    return [escape(name) + "\u200b" * (at + 1) for at, name in enumerate(names)]


def _bars(
    labels: Sequence[str], values: f.Floats, colours: Palette, name: str, *, across: bool
) -> f.Figure:
    """Bars coloured by sign."""
    low, high = colours.diverging[1], colours.diverging[3]
    fill = [high if value >= 0 else low for value in values]
    more: f.Figure = {"orientation": "h"} if across else {}
    more |= {"textposition": "none", "marker": {"color": fill}, **_said(values, name)}
    return f.bar(*_along(labels, values, across), **more)


def _gaps(
    labels: Sequence[str],
    values: f.Floats,
    free: f.Floats,
    colours: Palette,
    name: str,
    *,
    across: bool,
) -> f.Figure:
    """Thin bars from each value to its alternative in `free`; none if that is NaN."""
    length = np.asarray(free - values, np.float32)
    return f.bar(
        *_along(labels, length, across),
        orientation="h" if across else "v",
        base=np.asarray(values, np.float32).tolist(),  # Plotly accepts no binary array here
        width=0.22,
        textposition="none",
        marker={"color": colours.muted, "opacity": 0.55},
        **_said(length, name),
    )


def _diamonds(
    labels: Sequence[str], values: f.Floats, colours: Palette, name: str, *, across: bool
) -> f.Figure:
    marker = {"symbol": "diamond-open", "size": 8, "color": colours.ink}
    at = _along(labels, values, across)
    return f.scatter(*at, "markers", marker=marker, **_said(values, name))


def _along(labels: Sequence[str], values: f.Floats, across: bool) -> tuple[Any, Any]:
    """The values by label, to the right if `across`, else upwards."""
    lengths = np.asarray(values, np.float32)
    return (lengths, list(labels)) if across else (list(labels), lengths)


def _said(values: f.Floats, name: str) -> f.Figure:
    """The name of a trace, and its values on hover."""
    text = ["" if np.isnan(value) else signed(float(value), 3) for value in values]
    hover = "<b>%{text}</b><extra>" + escape(name) + "</extra>"
    return {"name": escape(name), "text": text, "hovertemplate": hover}
