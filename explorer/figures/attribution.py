"""Causes of a score or a word: the terms of its sum, and the logit lens by depth."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from explorer.figures import frame as f
from explorer.figures.theme import Palette, Stream, bare, clipped, escape, palette, show
from explorer.numbers import digits, percents, signed

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
    if free is not None:
        f.check_shape("free", free, (len(names),))
    traces = _terms(labels, values, free, colours, words, across=True)
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
    beside = [
        trace | {"xaxis": "x2", "yaxis": "y"}
        for trace in _terms(down, by_row, free_rows, colours, words, across=True)
    ]
    above = [
        trace | {"xaxis": "x", "yaxis": "y2", "showlegend": False}
        for trace in _terms(across, by_column, free_columns, colours, words, across=False)
    ]
    traces = [heatmap, *beside[:2], *above[:2], beside[2], above[2]]
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


def _terms(
    labels: Sequence[str],
    values: f.Floats,
    free: f.Floats | None,
    colours: Palette,
    words: f.Words,
    *,
    across: bool,
) -> list[f.Figure]:
    """Bars coloured by sign, to the right if `across`, else upwards. With `free`, also diamonds at
    these values, and thin bars to them from `values`; none where they are NaN."""

    def along(lengths: f.Floats) -> tuple[Any, Any]:
        narrow = np.asarray(lengths, np.float32)
        return (narrow, list(labels)) if across else (list(labels), narrow)

    low, high = colours.diverging[1], colours.diverging[3]
    more: f.Figure = {"orientation": "h"} if across else {}
    fill = {"color": [high if value >= 0 else low for value in values]}
    more |= {"textposition": "none", "marker": fill, **_said(values, words["frozen"])}
    bars = f.bar(*along(values), **more)
    if free is None:
        return [bars]
    marker = {"symbol": "diamond-open", "size": 8, "color": colours.ink}
    length = np.asarray(free - values, np.float32)
    gaps = f.bar(
        *along(length),
        orientation="h" if across else "v",
        base=np.asarray(values, np.float32).tolist(),  # Plotly accepts no binary array here
        width=0.22,
        textposition="none",
        marker={"color": colours.muted, "opacity": 0.55},
        **_said(length, words["left"]),
    )
    diamonds = f.scatter(*along(free), "markers", marker=marker, **_said(free, words["free"]))
    return [bars, diamonds, gaps]


def _said(values: f.Floats, name: str) -> f.Figure:
    """The name of a trace, and its values on hover."""
    text = ["" if np.isnan(value) else signed(float(value), 3) for value in values]
    hover = "<b>%{text}</b><extra>" + escape(name) + "</extra>"
    return {"name": escape(name), "text": text, "hovertemplate": hover}


DEPTH_ROW, WORD_COLUMN = 30, 62
"""Height of one depth, and width of a word, in pixels."""
MOST_WRITTEN = 40
"""Number of positions above which words are shown on hover only."""


def depths(
    said: Sequence[Sequence[str]],
    values: f.Floats,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    kind: str,
    title: str,
    column_title: str,
    selected: int | None = None,
    doubtful: Sequence[int] = (),
    n_shown: int | None = None,
    dark: bool = False,
    words: f.Words,
) -> f.Figure:
    """The word predicted at each depth and position [depth, place], coloured by `values`.

    `kind` is the kind of value: "chance" (probability, 0 to 1), "ranked" (rank from 1, on a
    logarithmic scale) or "distance" (nats, 0 and above). In all three, darker means closer to the
    answer. `selected` outlines a position; positions from `n_shown` on are blank; the names of
    `doubtful` depths are dimmed. Raises ValueError with the sizes if they disagree.
    """
    shape = (len(rows), len(columns))
    f.check_shape("said", np.array([list(row) for row in said], object), shape)
    f.check_shape("values", values, shape)
    colours = palette(dark)
    if kind == "chance":
        z, low, high, texts = values, 0.0, 1.0, percents(values)
        ticks, names = [0.0, 0.5, 1.0], ["0 %", "50 %", "100 %"]
    elif kind == "ranked":
        z, low, high = -np.log10(values), -float(np.log10(values.max(initial=10.0))), 0.0
        texts = np.array([[f"{value:.0f}" for value in row] for row in values], object)
        ticks = list(range(int(np.ceil(low)), 1))
        names = [f"{10**-tick:,}" for tick in ticks]
    else:
        z, low, high = -values, -float(values.max(initial=0.1)), 0.0
        texts = np.array([[digits(float(value)) for value in row] for row in values], object)
        ticks, names = [low, 0.0], [digits(-low), "0"]
    labels = f.token_labels(columns, dark)
    z = np.where(np.arange(shape[1]) < (shape[1] if n_shown is None else n_shown), z, np.nan)
    written = [[_short(word) for word in row[:n_shown]] for row in said]
    roomy = len(columns) <= MOST_WRITTEN
    trace = f.heatmap(
        z,
        colours.attention,
        (low, high),
        gap=2,
        x=labels,
        y=[
            f'<span style="color:{colours.muted}"><i>{escape(row)}</i></span>'
            if at in doubtful
            else escape(row)
            for at, row in enumerate(rows)
        ],
        text=written,
        texttemplate="%{text}" if roomy else "",
        textfont={"size": 12},
        customdata=np.array(texts, object),
        colorbar=f.colorbar(colours, title, tickvals=ticks, ticktext=names),
        hovertemplate=f"<b>%{{text}}</b><br>{escape(words['depth'])} %{{y}}<br>"
        f"{escape(title)} <b>%{{customdata}}</b><extra></extra>",
    )
    frame = f.layout(colours, 70 + f.BAR_ROOM + DEPTH_ROW * len(rows), below=f.BAR_ROOM)
    frame["meta"] = {"least": 110 + (WORD_COLUMN if roomy else 12) * len(columns)}
    ticks_across = {"tickvals": list(range(shape[1]))[:n_shown], "ticktext": labels[:n_shown]}
    frame["xaxis"] = f.token_axis(
        labels, column_title, "tgt", dark, side="top", tickangle=0, **ticks_across
    )
    frame["yaxis"] = f.axis(colours, words["depth"], autorange="reversed", type="category")
    if selected is not None and 0 <= selected < len(columns):
        frame["shapes"] = [f.outline(colours.accent, (selected, selected), (0, len(rows) - 1))]
    return {"data": [trace], "layout": frame}


def _short(word: str) -> str:
    """A word shortened to fit into its cell."""
    drawn = show(word)
    wide = any(character >= "\u1100" for character in bare(drawn))
    return escape(clipped(drawn, 5 if wide else 8))
