"""Common to all figures: type, layout, token axes, checks.

A figure is a plain dict in Plotly's JSON schema: the graph_objects constructor takes about 20 ms
per figure and adds nothing here. Array values stay numpy arrays, which are sent as base64.
"""

from collections import Counter
from collections.abc import Sequence
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from explorer.figures import theme
from explorer.figures.matrix import (
    Bools as Bools,
    Floats as Floats,
    Words as Words,
    check_shape as check_shape,
)
from explorer.numbers import digits

Figure = dict[str, Any]


def layout(
    colours: theme.Palette, height: int, legend: bool | None = None, **more: Any
) -> dict[str, Any]:
    """A transparent layout in system fonts; `more` overrides."""
    return {
        "height": height,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": theme.FONT, "size": 13, "color": colours.ink},
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "hoverlabel": {
            "bgcolor": colours.paper,
            "bordercolor": colours.line,
            "font": {"family": theme.FONT, "size": 13, "color": colours.ink},
            "align": "left",
        },
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": colours.muted, "activecolor": colours.ink},
        "showlegend": bool(legend),
        "dragmode": False,
        **({} if legend is None else {"legend": LEGEND}),
        **more,
    }


def scatter(x: Any, y: Any, mode: str = "lines", **more: Any) -> Figure:
    """A trace of points, in Plotly's `mode`: "lines", "markers", "text", or several joined by +."""
    return {"type": "scatter", "mode": mode, "x": x, "y": y, **more}


def bar(x: Any, y: Any, **more: Any) -> Figure:
    """A trace of bars."""
    return {"type": "bar", "x": x, "y": y, **more}


def said(texts: Sequence[str]) -> Figure:
    """The hover text of each point, as arguments of a trace."""
    template = "%{customdata}<extra></extra>"
    return {"customdata": np.array(texts, object), "hovertemplate": template}


def note(text: str, x: Any, y: Any, colour: str, size: int = 12, **more: Any) -> Figure:
    """A text at a place of the plot; `more` are further properties of Plotly's annotation."""
    font = {"color": colour, "size": size}
    return {"text": text, "x": x, "y": y, "showarrow": False, "font": font, **more}


def line(
    colour: str,
    across: tuple[float, float],
    down: tuple[float, float],
    dash: str = "dot",
    **more: Any,
) -> Figure:
    """A thin straight line; `more` are further properties of Plotly's shape."""
    ends = {"x0": across[0], "x1": across[1], "y0": down[0], "y1": down[1]}
    return {"type": "line", **ends, "line": {"color": colour, "width": 1, "dash": dash}, **more}


LEGEND: Figure = {"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom"}
"""A one-line legend above the plot, left-aligned."""


def axis(colours: theme.Palette, title: str = "", colour: str | None = None, **more: Any) -> Figure:
    """A plain axis; `colour` is the colour of its title, `more` overrides."""
    return {
        "title": {
            "text": theme.escape(title),
            "font": {"color": colour or colours.muted, "size": 13},
            "standoff": 12,
        },
        "automargin": True,
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
        "tickfont": {"color": colours.ink},
        **more,
    }


def number_axis(colours: theme.Palette, title: str = "", **more: Any) -> Figure:
    """An axis of numbers: faint grid, muted ticks."""
    quiet = {"showgrid": True, "gridcolor": colours.line, "tickfont": {"color": colours.muted}}
    return axis(colours, title, **{**quiet, **more})


def log_axis(values: Floats) -> Figure:
    """A logarithmic axis for `values` that labels 1, 2 and 5 of each power of ten in full, or over
    more than three powers only these: Plotly writes 0.5 as 5."""
    known = np.log10(values[np.isfinite(values) & (values > 0)])
    if not known.size or np.ptp(known) > 3:
        return {"type": "log", "dtick": 1, "exponentformat": "power"}
    powers = range(int(np.floor(known.min())), int(np.ceil(known.max())) + 1)
    ticks = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    return {"type": "log", "tickvals": ticks, "ticktext": [digits(tick) for tick in ticks]}


def token_axis(
    labels: Sequence[str], title: str, stream: theme.Stream | None, dark: bool, **more: Any
) -> Figure:
    """An axis of token labels (made by `token_labels`), its title in the stream's colour.

    It is a category axis because Plotly thins category labels to the available width, which only
    the browser knows; shapes may still address it by position.
    """
    colours = theme.palette(dark)
    return axis(
        colours,
        title,
        colours.stream(stream) if stream else None,
        type="category",
        categoryorder="array",
        categoryarray=list(labels),
        **more,
    )


def token_labels(tokens: Sequence[str], dark: bool) -> list[str]:
    """Tokens as unique categories: escaped, special tokens dimmed, duplicates distinct.

    Plotly merges categories of the same name, so the n-th occurrence ends in n invisible zero-width
    spaces; the first has one too, so that a token "3" is not read as position 3.
    """
    muted = theme.palette(dark).muted
    seen: Counter[str] = Counter()
    labels = []
    for token in tokens:
        seen[token] += 1
        text = theme.escape(theme.show(token))
        if theme.is_special(token):
            text = f'<span style="color:{muted}">{text}</span>'
        labels.append(text + "\u200b" * seen[token])
    return labels


class _Plan(NamedTuple):
    """The layout of horizontal axis labels: alternating over `levels` lines, every `every`-th
    shown.

    `most`: width in pixels at which a label is clipped.
    """

    levels: int
    every: int
    most: float


def _plan(tokens: Sequence[str], room: int) -> _Plan:
    width = room / max(len(tokens), 1)
    longest = max((_width(theme.show(token)) for token in tokens), default=0.0) + 8
    levels = max(1, min(3, len(tokens), ceil(min(longest, 118.0) / width)))
    every = max(1, ceil(min(longest, 64.0) / (width * levels)))
    return _Plan(levels, every, width * levels * every - 6)


def upright(tokens: Sequence[str], dark: bool, room: int) -> Figure:
    """Ticks that keep the labels of a token axis below the plot upright, for any number of tokens.

    If the labels do not fit side by side into `room` pixels, they alternate between up to three
    lines; if that is not enough, only every second or third tick has a label, and finally labels
    are clipped. The ticks address the categories by position.
    """
    muted = theme.palette(dark).muted
    levels, every, most = _plan(tokens, room)
    shown = range(0, len(tokens), every)
    texts = []
    for place, index in enumerate(shown):
        text = theme.escape(_clipped(theme.show(tokens[index]), most))
        if theme.is_special(tokens[index]):
            text = f'<span style="color:{muted}">{text}</span>'
        empty = place % levels
        texts.append("\u00a0<br>" * empty + text)
    return {"tickmode": "array", "tickvals": list(shown), "ticktext": texts, "tickangle": 0}


def least_width(tokens: Sequence[str], room: int) -> int:
    """The smallest figure width in pixels at which labels placed by `upright` do not touch.

    Put the width into the `meta` of the figure's layout, where `ui.controls.chart` reads it: in a
    narrower place the figure scrolls.
    """
    levels, every, most = _plan(tokens, room)
    widths = [min(_width(theme.show(token)), most) for token in tokens[::every]]
    apart = [(a + b) / 2 + 6 for a, b in zip(widths, widths[levels:], strict=False)]
    return ceil(max(apart, default=0.0) * len(tokens) / (levels * every) + BESIDE)


BESIDE = 62
"""Width in pixels of a number on a vertical axis, of its title, and of the margins."""


def _width(text: str) -> float:
    """The approximate width of a label in pixels; Chinese and some other characters are wide."""
    return sum(
        13.5 if character >= "\u1100" else 10.5 if character in "<>%@mwMW" else 7.4
        for character in theme.bare(text)
    )


def _clipped(text: str, width: float) -> str:
    if _width(text) <= width:
        return text
    most = len(text)
    while most > 1 and _width(theme.clipped(text, most)) > width:
        most -= 1
    return theme.clipped(text, most)
