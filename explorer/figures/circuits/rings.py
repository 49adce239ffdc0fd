"""Rings around the heatmap cells that define a behaviour."""

import numpy as np
from numpy.typing import NDArray

from explorer.figures import frame as f
from explorer.figures.theme import palette


def ringed(
    figure: f.Figure, queries: NDArray[np.integer], keys: NDArray[np.integer], *, dark: bool = False
) -> f.Figure:
    """The heatmap with a ring around each (query, key)."""
    heatmap = figure["data"][0]
    rings = f.scatter(
        [heatmap["x"][key] for key in keys],
        [heatmap["y"][query] for query in queries],
        "markers",
        marker={
            "symbol": "circle-open",
            "size": 11,
            "color": palette(dark).target,
            "line": {"width": 1.5},
        },
        hoverinfo="skip",
        showlegend=False,
    )
    return {**figure, "data": [*figure["data"], rings]}
