"""Change of each token's vector when the words are shuffled: bars, one group per token."""

from collections.abc import Sequence

import numpy as np

from explorer.figures import frame as f
from explorer.figures.bars import ROOM
from explorer.figures.theme import Stream, escape, palette

SHAPES = ("", "/", "x")
"""A hatching for each setting, so that they do not differ in colour alone."""

NOTHING = 5e-4
"""Shares below this have an invisible bar."""


def moved(
    tokens: Sequence[str],
    distances: f.Floats,
    names: Sequence[str],
    *,
    y_title: str,
    x_title: str,
    stream: Stream,
    dark: bool = False,
) -> f.Figure:
    """Relative distances [setting, pos] as groups of bars over the tokens, at most three per group.

    Raises ValueError with the sizes if they disagree.
    """
    f.check_shape("distances", distances, (len(names), len(tokens)))
    colours = palette(dark)
    labels = f.token_labels(tokens, dark)
    fills = (colours.stream(stream), colours.curves[5], colours.accent)
    traces = [
        {
            "type": "bar",
            "name": escape(name),
            "x": labels,
            "y": np.asarray(row, np.float32) * 100,
            # Zero is a result here: label the invisible bar.
            "text": np.where(row < NOTHING, "0", ""),
            "textposition": "outside",
            "textangle": 0,
            "cliponaxis": False,
            "marker": {
                "color": fills[index],
                "pattern": {"shape": SHAPES[index], "bgcolor": colours.paper, "size": 6},
            },
            "hovertemplate": f"<b>%{{x}}</b><br>{escape(name)}: %{{y:.3~g}} %<extra></extra>",
        }
        for index, (name, row) in enumerate(zip(names, distances, strict=True))
    ]
    frame = f.layout(
        colours,
        340,
        legend=True,
        barmode="group",
        bargap=0.3,
        meta={"least": f.least_width(tokens, 2 * ROOM)},
    )
    frame["xaxis"] = f.token_axis(
        labels, x_title, stream, dark, **f.upright(tokens, dark, 2 * ROOM)
    )
    frame["yaxis"] = f.number_axis(colours, y_title, ticksuffix=" %", rangemode="tozero", nticks=6)
    return {"data": traces, "layout": frame}
