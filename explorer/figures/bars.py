"""The attention weights of one query as bars."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from explorer.figures import frame as f
from explorer.figures.theme import Palette, Stream, escape, palette
from explorer.numbers import percents

ROOM = 420
"""The approximate width of a row's bars in pixels; only the browser knows it exactly."""


def row(
    tokens: Sequence[str],
    weights: f.Floats,
    *,
    stream: Stream | None = None,
    allowed: f.Bools | None = None,
    title: str,
    dark: bool = False,
    words: f.Words,
) -> f.Figure:
    """One query's weights [key], 0 to 1, as bars over the key tokens, in percent.

    `allowed` [key] False marks blocked keys, hatched up to the full height of the plot.

    Raises ValueError with the sizes if they disagree.
    """
    n = len(tokens)
    f.check_shape("weights", weights, (n,))
    open_keys = np.ones(n, bool) if allowed is None else allowed
    f.check_shape("allowed", open_keys, (n,))
    colours = palette(dark)
    names = f.token_labels(tokens, dark)
    heights = np.asarray(weights, np.float32) * 100
    top = max(float(heights.max(initial=0.0)), 1.0) * 1.1
    bar = f.bar(
        names,
        np.where(open_keys, heights, top).astype(np.float32),
        text=np.where(open_keys, percents(weights), escape(words["blocked"])),
        textposition="none",
        marker={
            "color": np.where(open_keys, colours.attention[2], colours.hatch),
            "pattern": _hatched(np.where(open_keys, "", "/"), colours),
        },
        hovertemplate="<b>%{x}</b><br>%{text}<extra></extra>",
    )
    frame = f.layout(colours, 260, bargap=0.2, meta={"least": f.least_width(tokens, ROOM)})
    labels = f.upright(tokens, dark, ROOM)
    frame["xaxis"] = f.token_axis(names, title, stream, dark, **labels)
    frame["yaxis"] = f.number_axis(
        colours, words["weight"], ticksuffix=" %", range=[0, top], nticks=5
    )
    return {"data": [bar], "layout": frame}


def _hatched(shape: NDArray[np.str_], colours: Palette) -> f.Figure:
    """Plotly's bar pattern with the hatching of blocked cells.

    If every bar has its own colour, Plotly also draws its pattern lines in that colour. So hatched
    bars get the colour `hatch`, and only the background is set here.
    """
    return {"shape": shape, "bgcolor": colours.blocked, "size": 6, "solidity": 0.2}
