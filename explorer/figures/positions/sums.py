"""A sum of two vectors: by component, and as arrows in the plane that they span."""

import math
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
    layout,
    number_axis,
)
from explorer.figures.theme import colorscale, escape, palette


def strips(values: Floats, names: Sequence[str], *, dark: bool = False, words: Words) -> Figure:
    """Vectors [name, dimension] below one another, on one colour scale."""
    check_shape("values", values, (len(names), values.shape[1]))
    colours = palette(dark)
    limit = float(np.abs(values).max(initial=1e-6))
    trace = {
        "type": "heatmap",
        "z": np.asarray(values, np.float32),
        "y": [escape(name) for name in names],
        "ygap": 6,
        "colorscale": colorscale(colours.diverging),
        "zmin": -limit,
        "zmax": limit,
        "colorbar": colorbar(colours, words["value"]),
        "hovertemplate": f"<b>%{{y}}</b><br>{escape(words['dimension'])} <b>%{{x}}</b><br>"
        f"{escape(words['value'])} <b>%{{z:.3f}}</b><extra></extra>",
    }
    frame = layout(colours, 260)
    frame["margin"]["b"] = BAR_ROOM
    muted = {"color": colours.muted}
    frame["xaxis"] = axis(colours, words["dimension"], side="top", tickfont=muted)
    frame["yaxis"] = axis(colours, "", autorange="reversed")
    return {"data": [trace], "layout": frame}


def plane(
    lengths: tuple[float, float], degrees: float, names: Sequence[str], *, dark: bool = False
) -> Figure:
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
    frame = layout(colours, 260, showlegend=False)
    pad = 0.12 * float(np.ptp(points, axis=0).max())
    for name, column in (("xaxis", 0), ("yaxis", 1)):
        span = [float(points[:, column].min()) - pad, float(points[:, column].max()) + pad]
        frame[name] = axis(colours, "", showgrid=True, range=span)
    frame["yaxis"] |= {"scaleanchor": "x"}
    frame["annotations"] = [
        _arrow(start, tip, colours.curves[index]) for index, (start, tip) in enumerate(ways)
    ]
    traces = [
        {
            "type": "scatter",
            "mode": "text",
            "x": [(start[0] + tip[0]) / 2],
            "y": [(start[1] + tip[1]) / 2],
            "text": [escape(name)],
            "textposition": where,
            "textfont": {"color": colours.curves[index], "size": 13},
            "hoverinfo": "skip",
        }
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


def sizes(
    names: Sequence[str],
    tokens: Floats,
    positions: Floats,
    legend: tuple[str, str],
    *,
    title: str,
    dark: bool = False,
) -> Figure:
    """One line per name, the first on top: a circle for its tokens, a diamond for its positions.

    The axis is logarithmic. Raises ValueError with the sizes if they disagree.
    """
    check_shape("tokens", tokens, (len(names),))
    check_shape("positions", positions, (len(names),))
    colours = palette(dark)
    rows = np.arange(len(names))
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": np.ravel([[a, b, None] for a, b in zip(tokens, positions, strict=True)]),
            "y": np.repeat(rows, 3),
            "line": {"color": colours.line, "width": 3},
            "hoverinfo": "skip",
            "showlegend": False,
        }
    ]
    for values, name, symbol, colour in (
        (tokens, legend[0], "circle", colours.curves[0]),
        (positions, legend[1], "diamond", colours.curves[1]),
    ):
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": np.asarray(values, np.float64),
                "y": rows,
                "name": escape(name),
                "marker": {"symbol": symbol, "size": 11, "color": colour},
                "hovertemplate": f"{escape(name)}: <b>%{{x:.3g}}</b><extra></extra>",
            }
        )
    frame = layout(colours, 90 + 26 * len(names), showlegend=True, legend=LEGEND)
    frame["xaxis"] = number_axis(colours, title, type="log", dtick=1)
    frame["yaxis"] = axis(
        colours,
        autorange="reversed",
        tickvals=rows.tolist(),
        ticktext=[escape(name) for name in names],
    )
    return {"data": traces, "layout": frame}
