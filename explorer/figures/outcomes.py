"""Outcomes of many cases as a grid of short words, and a mask with a value in each cell."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from explorer.figures import frame as f
from explorer.figures.theme import escape, palette

Level = Literal["good", "loud", "silent"]
LEVELS: tuple[Level, ...] = ("good", "loud", "silent")
"""Right; wrong with an error or NaN; silently wrong."""

COLUMN, NAMES = 102, 150
"""Width in pixels of a column, and of the row names."""
SPELT = 18
"""Characters that fit into one row of a small mask."""


def outcomes(
    levels: Sequence[Sequence[Level]],
    texts: Sequence[Sequence[str]],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    selected: tuple[int, int] | None = None,
    dark: bool = False,
) -> f.Figure:
    """A grid [row, column] of cases, each with its text and the colour of its level.

    `selected` outlines one cell. Raises ValueError with the sizes if they disagree.
    """
    shape = (len(rows), len(columns))
    marks = np.array([[LEVELS.index(level) for level in row] for row in levels])
    f.check_shape("levels", marks, shape)
    f.check_shape("texts", np.array(texts, object), shape)
    colours = palette(dark)
    fills = (colours.attention[0], colours.blocked, colours.diverging[1])
    trace = {
        "type": "heatmap",
        "z": marks,
        "x": [escape(name) for name in columns],
        "y": [escape(name) for name in rows],
        "zmin": -0.5,
        "zmax": 2.5,
        "colorscale": [
            (edge, fill)
            for index, fill in enumerate(fills)
            for edge in (index / 3, (index + 1) / 3)
        ],
        "showscale": False,
        "xgap": 3,
        "ygap": 3,
        "text": [[escape(text).replace("\n", "<br>") for text in row] for row in texts],
        "texttemplate": "%{text}",
        "textfont": {"color": colours.ink, "size": 12},
        "hovertemplate": "%{y}<br>%{x}<br><b>%{text}</b><extra></extra>",
    }
    least = NAMES + COLUMN * len(columns)
    frame = f.layout(colours, 40 + 46 * len(rows), meta={"least": least})
    frame["xaxis"] = f.axis(colours, type="category", side="top", tickangle=0)
    frame["yaxis"] = f.axis(colours, type="category", autorange="reversed")
    if selected is not None:
        row, column = selected
        frame["shapes"] = [f.outline(colours.accent, (column, column), (row, row))]
    return {"data": [trace], "layout": frame}


def written_mask(keep: f.Bools, texts: NDArray[np.str_], *, dark: bool = False) -> f.Figure:
    """A small mask [query, key] with the value of each cell; blocked cells are grey.

    The values are written if there is room, else shown on hover only.
    """
    f.check_shape("texts", texts, keep.shape)
    colours = palette(dark)
    longest = max((len(text) for text in texts.flat), default=0)
    trace = {
        "type": "heatmap",
        "z": np.where(keep, 0, 1),
        "zmin": 0,
        "zmax": 1,
        "colorscale": [(0.0, colours.attention[0]), (1.0, colours.hatch)],
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
        "text": texts.astype(object),
        "texttemplate": "%{text}" if keep.shape[1] * longest <= SPELT else "",
        "textfont": {"color": colours.ink, "size": 10},
        "hovertemplate": "<b>%{text}</b><extra></extra>",
    }
    frame = f.layout(colours, 130, margin={"l": 0, "r": 0, "t": 0, "b": 0})
    frame["xaxis"] = f.axis(colours, showticklabels=False)
    frame["yaxis"] = f.axis(colours, showticklabels=False, autorange="reversed")
    return {"data": [trace], "layout": frame}
