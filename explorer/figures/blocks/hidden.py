"""Hidden units and experts of a feed-forward network: one row per token, one column each."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from explorer.figures import frame as f
from explorer.figures.theme import Stream, colorscale, escape, palette


def units(
    values: f.Floats,
    numbers: Sequence[object] | NDArray[np.integer],
    tokens: Sequence[str],
    *,
    title: str,
    x_title: str,
    y_title: str,
    stream: Stream,
    dark: bool = False,
) -> f.Figure:
    """Selected units [pos, unit] on a diverging scale; `numbers` are their indices in the network.

    Raises ValueError with the sizes if they disagree.
    """
    f.check_shape("values", values, (len(tokens), len(numbers)))
    colours = palette(dark)
    limit = max(1e-6, float(np.abs(values).max(initial=0.0)))
    labels = f.token_labels(tokens, dark)
    trace = f.heatmap(
        values,
        colours.diverging,
        (-limit, limit),
        x=[str(number) for number in numbers],
        y=labels,
        hovertemplate=f"<b>%{{y}}</b><br>{escape(x_title)} <b>%{{x}}</b><br>"
        f"{escape(title)} <b>%{{z:.3f}}</b><extra></extra>",
        colorbar=f.colorbar(colours, title, tickvals=[-limit, 0, limit], ticktext=f.ends(limit, 2)),
    )
    frame = f.layout(colours, 60 + f.BAR_ROOM + max(90, 20 * len(tokens)), below=f.BAR_ROOM)
    frame["xaxis"] = f.axis(
        colours, x_title, type="category", side="top", showticklabels=False, nticks=12
    )
    frame["yaxis"] = f.token_axis(labels, y_title, stream, dark, autorange="reversed")
    return {"data": [trace], "layout": frame}


def routes(
    weights: f.Floats,
    tokens: Sequence[str],
    names: Sequence[str],
    *,
    title: str,
    x_title: str,
    y_title: str,
    dark: bool = False,
) -> f.Figure:
    """The router's weights [pos, expert], 0 to 1, and the names of the experts."""
    titles = {"title": title, "x_title": x_title, "y_title": y_title}
    figure = units(weights, names, tokens, **titles, stream="tgt", dark=dark)
    bar = f.colorbar(palette(dark), title, tickvals=[0, 0.5, 1], ticktext=["0 %", "50 %", "100 %"])
    scale = colorscale(palette(dark).attention)
    figure["data"][0] |= {"zmin": 0, "zmax": 1, "colorscale": scale, "colorbar": bar}
    figure["layout"]["xaxis"] |= {"showticklabels": True, "nticks": len(names)}
    return figure
