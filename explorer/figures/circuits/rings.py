"""Rings around the heatmap cells that define a behaviour."""

import numpy as np
from numpy.typing import NDArray

from explorer.figures.frame import Figure
from explorer.figures.theme import palette


def ringed(
    figure: Figure, queries: NDArray[np.integer], keys: NDArray[np.integer], *, dark: bool = False
) -> Figure:
    """The heatmap with a ring around each (query, key)."""
    heatmap = figure["data"][0]
    rings = {
        "type": "scatter",
        "mode": "markers",
        "x": [heatmap["x"][key] for key in keys],
        "y": [heatmap["y"][query] for query in queries],
        "marker": {
            "symbol": "circle-open",
            "size": 11,
            "color": palette(dark).target,
            "line": {"width": 1.5},
        },
        "hoverinfo": "skip",
        "showlegend": False,
    }
    return {**figure, "data": [*figure["data"], rings]}
