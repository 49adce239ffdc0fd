"""A sum of two vectors: by component, and as arrows in the plane that they span."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from explorer.figures import frame as f
from explorer.figures.matrix import Axis, Matrix, signed
from explorer.figures.theme import escape, palette


def strips(values: f.Floats, names: Sequence[str], *, words: f.Words) -> Matrix:
    """Vectors [name, dimension] below one another, on one colour scale."""
    axes = Axis(names), Axis.numbers(values.shape[1], words["dimension"])
    return signed(values, axes, words["value"], least=(0, 40))


def plane(
    lengths: tuple[float, float], degrees: float, names: Sequence[str], *, dark: bool = False
) -> f.Figure:
    """Token, position and their sum with their true lengths and angles.

    Two vectors and their sum lie in one plane in any number of dimensions: the token points right,
    the position starts at its tip with an angle of `degrees`, and the sum leads from the origin to
    the end.
    """
    colours = palette(dark)
    token = (lengths[0], 0.0)
    turn = math.radians(degrees)
    end = (token[0] + lengths[1] * math.cos(turn), lengths[1] * math.sin(turn))
    ways: tuple[tuple[tuple[float, float], tuple[float, float]], ...] = (
        ((0.0, 0.0), token),
        (token, end),
        ((0.0, 0.0), end),
    )
    points = np.array([(0.0, 0.0), token, end])
    frame = f.layout(colours, 260, showlegend=False)
    pad = 0.12 * float(np.ptp(points, axis=0).max())
    for name, column in (("xaxis", 0), ("yaxis", 1)):
        span = [float(points[:, column].min()) - pad, float(points[:, column].max()) + pad]
        frame[name] = f.number_axis(colours, range=span)
    frame["yaxis"] |= {"scaleanchor": "x"}
    frame["annotations"] = [
        _arrow(start, tip, colours.curves[index]) for index, (start, tip) in enumerate(ways)
    ]
    traces = [
        f.scatter(
            [(start[0] + tip[0]) / 2],
            [(start[1] + tip[1]) / 2],
            "text",
            text=[escape(name)],
            textposition=where,
            textfont={"color": colours.curves[index], "size": 13},
            hoverinfo="skip",
        )
        for index, ((start, tip), name, where) in enumerate(
            zip(ways, names, ("bottom center", "middle right", "top left"), strict=True)
        )
    ]
    return {"data": traces, "layout": frame}


def _arrow(start: tuple[float, float], tip: tuple[float, float], colour: str) -> dict[str, Any]:
    return {
        "x": tip[0],
        "y": tip[1],
        "ax": start[0],
        "ay": start[1],
        "xref": "x",
        "yref": "y",
        "axref": "x",
        "ayref": "y",
        "text": "",
        "showarrow": True,
        "arrowhead": 2,
        "arrowwidth": 2.5,
        "arrowcolor": colour,
    }
