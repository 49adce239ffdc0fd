"""Numbers as bars: the weights of one query, pairs of values, and values with long names."""

from collections.abc import Sequence
from textwrap import wrap

import numpy as np
from numpy.typing import NDArray

from explorer.figures import frame as f
from explorer.figures.theme import Palette, Stream, escape, palette
from explorer.numbers import compact, percents

LINE = 26
"""Approximate Latin letters per line of a name; a Chinese character counts as two."""
ROOM, WIDE = 420, 840
"""The approximate width of bars in a column, or over the page, in pixels; only the browser knows it
exactly."""


def row(
    tokens: Sequence[str],
    weights: f.Floats,
    *,
    stream: Stream | None = None,
    allowed: f.Bools | None = None,
    title: str,
    dark: bool = False,
    words: f.Words,
) -> f.Figure:
    """One query's weights [key], 0 to 1, as bars over the key tokens, in percent.

    `allowed` [key] False marks blocked keys, hatched up to the full height of the plot.

    Raises ValueError with the sizes if they disagree.
    """
    n = len(tokens)
    f.check_shape("weights", weights, (n,))
    open_keys = np.ones(n, bool) if allowed is None else allowed
    f.check_shape("allowed", open_keys, (n,))
    colours = palette(dark)
    names = f.token_labels(tokens, dark)
    heights = np.asarray(weights, np.float32) * 100
    top = max(float(heights.max(initial=0.0)), 1.0) * 1.1
    bar = f.bar(
        names,
        np.where(open_keys, heights, top).astype(np.float32),
        text=np.where(open_keys, percents(weights), escape(words["blocked"])),
        textposition="none",
        marker={
            "color": np.where(open_keys, colours.attention[2], colours.hatch),
            "pattern": _hatched(np.where(open_keys, "", "/"), colours),
        },
        hovertemplate="<b>%{x}</b><br>%{text}<extra></extra>",
    )
    frame = f.layout(colours, 260, bargap=0.2, meta={"least": f.least_width(tokens, ROOM)})
    labels = f.upright(tokens, dark, ROOM)
    frame["xaxis"] = f.token_axis(names, title, stream, dark, **labels)
    frame["yaxis"] = f.number_axis(
        colours, words["weight"], ticksuffix=" %", range=[0, top], nticks=5
    )
    return {"data": [bar], "layout": frame}


def _hatched(shape: NDArray[np.str_], colours: Palette) -> f.Figure:
    """Plotly's bar pattern with the hatching of blocked cells.

    If every bar has its own colour, Plotly also draws its pattern lines in that colour. So hatched
    bars get the colour `hatch`, and only the background is set here.
    """
    return {"shape": shape, "bgcolor": colours.blocked, "size": 6, "solidity": 0.2}


SHAPES = ("/", "", "x")
"""A hatching for each group, so that no two groups differ in colour alone."""
INVISIBLE, MOST_ZEROS = 0.002, 24
"""Bars below this share of the longest are labelled: zero is a result. For more labels than
MOST_ZEROS, the zeros would touch."""


def grouped(
    labels: Sequence[str],
    values: Sequence[f.Floats],
    names: Sequence[str],
    *,
    title: str,
    label_title: str = "",
    stream: Stream | None = None,
    streams: Sequence[Stream | None] = (),
    unit: str = "",
    height: int = 260,
    room: int = 0,
    dark: bool = False,
) -> f.Figure:
    """Up to three bars per label, side by side: `values` [group, label].

    `names` are for the legend, `title` for the value axis. A group of `streams` has the colour of
    its stream. A NaN or infinite value has no bar and is shown on hover. With `room`, in pixels,
    labels stay upright. Raises ValueError with the sizes if they disagree.
    """
    colours = palette(dark)
    shown = f.token_labels(labels, dark)
    fills = [colours.curves[5], colours.accent, colours.curves[1]]
    for at, of in enumerate(streams):
        fills[at] = fills[at] if of is None else colours.stream(of)
    finite = [np.where(np.isfinite(row), row, 0.0).astype(np.float64) for row in values]
    least = INVISIBLE * max(float(np.abs(row).max(initial=0.0)) for row in finite)
    traces = []
    for at, (row, heights, name) in enumerate(zip(values, finite, names, strict=True)):
        f.check_shape(name, heights, (len(labels),))
        small = np.isfinite(row) & (np.abs(heights) <= least) & (len(labels) <= MOST_ZEROS)
        traces.append(
            f.bar(
                shown,
                heights,
                name=escape(name),
                customdata=[f"{value:.3g}" if np.isfinite(value) else "NaN" for value in row],
                text=np.where(small, "0", ""),
                textposition="outside",
                textangle=0,
                cliponaxis=False,
                marker={
                    "color": fills[at],
                    "pattern": {"shape": SHAPES[at], "bgcolor": colours.paper, "size": 5},
                },
                hovertemplate=f"<b>%{{x}}</b><br>{escape(name)} %{{customdata}}{unit}"
                "<extra></extra>",
            )
        )
    frame = f.layout(colours, height, legend=len(names) > 1, barmode="group", bargap=0.3)
    ticks = {}
    if room:
        frame["meta"], ticks = {"least": f.least_width(labels, room)}, f.upright(labels, dark, room)
    frame["xaxis"] = f.token_axis(shown, label_title, stream, dark, **ticks)
    frame["yaxis"] = f.number_axis(
        colours, title, nticks=6, ticksuffix=unit, zeroline=True, zerolinecolor=colours.line
    )
    return {"data": traces, "layout": frame}


def measured(names: Sequence[str], values: f.Floats, *, title: str, dark: bool = False) -> f.Figure:
    """One horizontal bar per name, the first on top, with its number at the end; names are wrapped.

    NaN has no bar. The axis is logarithmic if the numbers span more than three orders of magnitude.

    Raises ValueError with the sizes if they disagree.
    """
    f.check_shape("values", values, (len(names),))
    colours = palette(dark)
    shown = np.nan_to_num(np.asarray(values, np.float64))
    lines = [_lines(name) for name in names]
    trace = f.bar(
        shown,
        np.arange(len(names)),
        orientation="h",
        text=[compact(value) for value in values],
        textposition="outside",
        cliponaxis=False,
        marker={"color": colours.accent, "opacity": 0.75},
        hoverinfo="skip",
    )
    height = 56 + sum(14 + 17 * len(label) for label in lines)
    frame = f.layout(colours, height, bargap=0.35)
    most = float(shown.max(initial=0.0)) or 1.0
    least = float(shown.min(initial=most))
    if 0 < least < most / 1000:  # on a linear axis only the longest would be visible
        ends = [float(np.log10(least)) - 0.5, float(np.log10(most)) + 1]
        frame["xaxis"] = f.number_axis(colours, title, type="log", range=ends, dtick=2)
    else:
        ends = [min(0.0, least) * 1.25, most * 1.25]
        frame["xaxis"] = f.number_axis(colours, title, range=ends, nticks=5)
    frame["yaxis"] = f.axis(
        colours,
        autorange="reversed",
        tickvals=list(range(len(names))),
        ticktext=["<br>".join(escape(line) for line in label) for label in lines],
    )
    return {"data": [trace], "layout": frame}


def _lines(name: str) -> list[str]:
    wide = any(character >= "\u1100" for character in name)
    return wrap(name, LINE // 2 + 2 if wide else LINE) or [""]
