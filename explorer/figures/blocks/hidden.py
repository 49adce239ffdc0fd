"""Hidden units and experts of a feed-forward network: one row per token, one column each."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from explorer.figures.frame import (
    BAR_ROOM,
    Figure,
    Floats,
    axis,
    check_shape,
    colorbar,
    ends,
    layout,
    token_axis,
    token_labels,
)
from explorer.figures.theme import Stream, colorscale, escape, palette


def units(
    values: Floats,
    numbers: Sequence[object] | NDArray[np.integer],
    tokens: Sequence[str],
    *,
    title: str,
    x_title: str,
    y_title: str,
    stream: Stream,
    dark: bool = False,
) -> Figure:
    """Selected units [pos, unit] on a diverging scale; `numbers` are their indices in the network.

    Raises ValueError with the sizes if they disagree.
    """
    check_shape("values", values, (len(tokens), len(numbers)))
    colours = palette(dark)
    limit = max(1e-6, float(np.abs(values).max(initial=0.0)))
    labels = token_labels(tokens, dark)
    trace = {
        "type": "heatmap",
        "z": np.asarray(values, np.float32),
        "x": [str(number) for number in numbers],
        "y": labels,
        "colorscale": colorscale(colours.diverging),
        "zmin": -limit,
        "zmax": limit,
        "hovertemplate": f"<b>%{{y}}</b><br>{escape(x_title)} <b>%{{x}}</b><br>"
        f"{escape(title)} <b>%{{z:.3f}}</b><extra></extra>",
        "colorbar": colorbar(colours, title, tickvals=[-limit, 0, limit], ticktext=ends(limit, 2)),
    }
    frame = layout(colours, 60 + BAR_ROOM + max(90, 20 * len(tokens)))
    frame["margin"]["b"] = BAR_ROOM
    frame["xaxis"] = axis(
        colours, x_title, type="category", side="top", showticklabels=False, nticks=12
    )
    frame["yaxis"] = token_axis(labels, y_title, stream, dark, autorange="reversed")
    return {"data": [trace], "layout": frame}


def routes(
    weights: Floats,
    tokens: Sequence[str],
    names: Sequence[str],
    *,
    title: str,
    x_title: str,
    y_title: str,
    dark: bool = False,
) -> Figure:
    """The router's weights [pos, expert], 0 to 1, and the names of the experts."""
    titles = {"title": title, "x_title": x_title, "y_title": y_title}
    figure = units(weights, names, tokens, **titles, stream="tgt", dark=dark)
    bar = colorbar(palette(dark), title, tickvals=[0, 0.5, 1], ticktext=["0 %", "50 %", "100 %"])
    scale = colorscale(palette(dark).attention)
    figure["data"][0] |= {"zmin": 0, "zmax": 1, "colorscale": scale, "colorbar": bar}
    figure["layout"]["xaxis"] |= {"showticklabels": True, "nticks": len(names)}
    return figure
