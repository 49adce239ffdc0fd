"""A query and a key as arrows in the plane of each feature pair, before and after rotation."""

from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.figures import frame as f
from explorer.figures.theme import escape, palette

COLUMNS = 4
STEP = 2.5
"""Distance between two circles of radius 1."""
_CIRCLE = np.append(np.linspace(0, 2 * np.pi, 49), np.nan)


def arrows(
    q: f.Floats,
    k: f.Floats,
    q_turned: f.Floats,
    k_turned: f.Floats,
    *,
    wavelengths: f.Floats,
    contributions: f.Floats,
    dark: bool = False,
    words: f.Words,
) -> f.Figure:
    """One circle per pair, [pair, 2] each: the longest arrow has the length of the radius.

    Arrow lengths are drawn as square roots, since most would be too small next to the longest. The
    query is solid, the key dashed; pale arrows show them before rotation. Below each circle is its
    wavelength in positions; hover shows the pair's contribution to the score.

    Raises ValueError with the sizes if they disagree.
    """
    for name, array in (("k", k), ("q_turned", q_turned), ("k_turned", k_turned)):
        f.check_shape(name, array, q.shape)
    n = len(q)
    f.check_shape("wavelengths", wavelengths, (n,))
    f.check_shape("contributions", contributions, (n,))
    colours = palette(dark)
    x = (np.arange(n) % COLUMNS) * STEP
    y = -(np.arange(n) // COLUMNS) * (STEP + 0.4)
    longest = max(1e-9, float(np.sqrt((np.concatenate([q, k]) ** 2).sum(1)).max()))
    rings = _trace(
        np.add.outer(x, np.cos(_CIRCLE)).ravel(),
        np.add.outer(y, np.sin(_CIRCLE)).ravel(),
        {"color": colours.line, "width": 1},
    )
    traces = [rings]
    for vectors, role, colour, dash, before in (
        (q, "query", colours.curves[0], "solid", True),
        (k, "key", colours.curves[1], "dot", True),
        (q_turned, "query", colours.curves[0], "solid", False),
        (k_turned, "key", colours.curves[1], "dot", False),
    ):
        lengths = np.sqrt((vectors**2).sum(1, keepdims=True))
        shown_as = vectors / np.sqrt(np.maximum(lengths, 1e-12) * longest)
        traces.append(_arrows(x, y, shown_as, colour, dash, before))
        traces[-1]["name"] = escape(words[role])
        traces[-1]["showlegend"] = not before
    shown = [f"{length:,.1f}" if length < 100 else f"{length:,.0f}" for length in wavelengths]
    traces.append(
        f.scatter(
            x,
            y,
            "markers",
            marker={"size": 50, "opacity": 0},
            customdata=np.stack([np.arange(n), wavelengths, contributions], 1),
            hovertemplate=f"{escape(words['pair'])} <b>%{{customdata[0]}}</b><br>"
            f"{escape(words['wavelength'])} <b>%{{customdata[1]:,.1f}}</b><br>"
            f"{escape(words['adds'])} <b>%{{customdata[2]:+.2f}}</b><extra></extra>",
            showlegend=False,
        )
    )
    rows = ceil(n / COLUMNS)
    frame = f.layout(colours, 48 + 112 * rows, legend=True)
    frame["legend"] = {**f.LEGEND, "y": 1.0}
    hidden: dict[str, Any] = {"visible": False, "fixedrange": True}
    wide = min(n, COLUMNS) * STEP
    frame["xaxis"] = {**hidden, "range": [-STEP / 2, wide - STEP / 2]}
    frame["yaxis"] = {
        **hidden,
        "range": [-(rows - 1) * (STEP + 0.4) - 1.75, 1.15],
        "scaleanchor": "x",
    }
    frame["annotations"] = [
        f.note(text, float(at_x), float(at_y) - 1.35, colours.muted, 11)
        for at_x, at_y, text in zip(x, y, shown, strict=True)
    ]
    return {"data": traces, "layout": frame}


def _trace(x: NDArray[Any], y: NDArray[Any], line: dict[str, Any]) -> dict[str, Any]:
    return f.scatter(x, y, line=line, hoverinfo="skip", showlegend=False)


def _arrows(
    x: NDArray[Any], y: NDArray[Any], vectors: f.Floats, colour: str, dash: str, before: bool
) -> dict[str, Any]:
    """All arrows of one role in one trace: from each centre to a marked tip."""
    gap = np.full(len(x), np.nan)
    trace = _trace(
        np.stack([x, x + vectors[:, 0], gap], 1).ravel(),
        np.stack([y, y + vectors[:, 1], gap], 1).ravel(),
        {"color": colour, "width": 1.5 if before else 2.5, "dash": dash},
    )
    sizes = np.tile([0, 4 if before else 7, 0], len(x))
    trace |= {
        "mode": "lines+markers",
        "opacity": 0.35 if before else 1.0,
        "marker": {"color": colour, "size": sizes, "symbol": "circle"},
    }
    return trace
