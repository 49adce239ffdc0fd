"""Numbers with long names: horizontal bars, each name wrapped over as many lines as needed."""

from collections.abc import Sequence
from textwrap import wrap

import numpy as np

from explorer.figures import frame as f
from explorer.figures.theme import escape, palette
from explorer.numbers import compact

LINE = 26
"""Approximate Latin letters per line of a name; a Chinese character counts as two."""


def measured(names: Sequence[str], values: f.Floats, *, title: str, dark: bool = False) -> f.Figure:
    """One bar per name, the first on top, with its number at the end.

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
