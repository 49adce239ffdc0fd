"""Figures of an atlas: all heads by two of their measures, and one head by distance."""

from collections.abc import Sequence

import numpy as np

from explorer.figures import frame as f
from explorer.figures.theme import escape, palette

MARKS: dict[str, tuple[int, str]] = {
    "previous": (0, "triangle-left"),
    "same": (1, "square"),
    "next": (2, "triangle-right"),
    "first": (3, "triangle-up"),
    "last": (4, "triangle-down"),
    "punctuation": (5, "cross"),
    "rare": (0, "star"),
    "repeat": (1, "diamond"),
    "induction": (2, "hexagon"),
    "spread": (3, "circle"),
    "alignment": (4, "pentagon"),
    "mixed": (5, "circle-open"),
}
"""A colour of the palette and a shape for each kind of head: no two share both."""


def scatter(
    x: f.Floats,
    y: f.Floats,
    kinds: Sequence[str],
    names: Sequence[str],
    *,
    x_title: str,
    y_title: str,
    low: f.Floats | None = None,
    high: f.Floats | None = None,
    kind_words: Sequence[str],
    selected: int | None = None,
    dark: bool = False,
) -> f.Figure:
    """One point per head; `kinds` are keys of MARKS, `kind_words` their names in the legend,
    `names` the hover texts.

    A head without one of the two values is left out. `low` and `high` are the ends of an interval
    for y. There is one trace per kind; `customdata[0]`
    of each point is the head's number. Raises ValueError with the sizes if they disagree.
    """
    n = len(names)
    f.check_shape("x", x, (n,))
    f.check_shape("y", y, (n,))
    colours = palette(dark)
    drawn = np.isfinite(x) & np.isfinite(y)
    traces: list[f.Figure] = []
    for kind, label in dict(zip(kinds, kind_words, strict=True)).items():
        chosen = np.flatnonzero(drawn & np.array([role == kind for role in kinds]))
        if not len(chosen):
            continue
        colour, symbol = MARKS[kind]
        point: f.Figure = f.scatter(
            x[chosen].astype(np.float32),
            y[chosen].astype(np.float32),
            "markers",
            name=escape(label),
            customdata=[[int(number), escape(names[int(number)])] for number in chosen],
            hovertemplate="%{customdata[1]}<br>"
            f"{escape(x_title)}: <b>%{{x:.3~g}}</b><br>{escape(y_title)}: <b>%{{y:.3~g}}</b>"
            "<extra></extra>",
            marker={
                "color": colours.muted if kind == "mixed" else colours.curves[colour],
                "symbol": symbol,
                "size": 11,
                "line": {"width": 1, "color": colours.paper},
            },
            selected={"marker": {"opacity": 1}},
            unselected={"marker": {"opacity": 1}},
        )
        if kind == "mixed":
            point["marker"]["line"] = {"width": 2, "color": colours.muted}
        if low is not None and high is not None:
            point["error_y"] = {
                "type": "data",
                "symmetric": False,
                "array": (high - y)[chosen].astype(np.float32),
                "arrayminus": (y - low)[chosen].astype(np.float32),
                "width": 0,
                "thickness": 1,
                "color": colours.line,
            }
        traces.append(point)
    frame = f.layout(colours, 390, legend=True, clickmode="event+select", hovermode="closest")
    frame["xaxis"] = f.number_axis(colours, x_title, fixedrange=True)
    frame["yaxis"] = f.number_axis(colours, y_title, fixedrange=True)
    if selected is not None and drawn[selected]:
        traces.append(
            f.scatter(
                x[[selected]].astype(np.float32),
                y[[selected]].astype(np.float32),
                "markers",
                hoverinfo="skip",
                showlegend=False,
                marker={
                    "size": 22,
                    "symbol": "circle-open",
                    "line": {"width": 2.5, "color": colours.accent},
                },
                selected={"marker": {"opacity": 1}},
                unselected={"marker": {"opacity": 1}},
            )
        )
    return {"data": traces, "layout": frame}
