"""The hatching of blocked cells behind a heatmap, which Plotly does not support."""

from urllib.parse import quote

import numpy as np

from explorer.figures.frame import Bools, Figure
from explorer.figures.theme import Palette


def hatching(colours: Palette, blocked: Bools, height: int) -> Figure:
    """One image below the trace, hatched where cells are blocked.

    It uses data coordinates, so it zooms with the cells, and takes one node for any number of
    blocked cells. Its own size only affects the angle of the hatching; it follows the plot, of
    which only the `height` in pixels is known. `blocked` is [query, key].
    """
    n_query, n_key = blocked.shape
    wide, tall = 900 / n_key, height / n_query
    runs = "".join(
        f"M{start * wide:.2f} {query * tall:.2f}h{(stop - start) * wide:.2f}"
        f"v{tall:.2f}H{start * wide:.2f}z"
        for query, row in enumerate(blocked)
        for start, stop in _runs(row)
    )
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="900" height="{height}" '
        f'viewBox="0 0 900 {height}" preserveAspectRatio="none">'
        '<pattern id="h" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<rect width="6" height="6" fill="{colours.blocked}"/>'
        f'<path d="M-1 1l2-2M0 6l6-6M5 7l2-2" stroke="{colours.hatch}"/></pattern>'
        f'<path d="{runs}" fill="url(#h)"/></svg>'
    )
    return {
        "source": "data:image/svg+xml," + quote(svg),
        "xref": "x",
        "yref": "y",
        "x": -0.5,
        "y": -0.5,
        "sizex": n_key,
        "sizey": n_query,
        "sizing": "stretch",
        "layer": "below",
    }


def _runs(row: Bools) -> list[tuple[int, int]]:
    """Start and end of every run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], row.astype(np.int8), [0]))))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
