"""Scores of a head before the softmax: signed numbers, so they diverge around a neutral zero."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from explorer.figures.frame import Bools, Figure, Floats, Words, colorbar, ends
from explorer.figures.heatmap import attention
from explorer.figures.theme import colorscale, palette


def scores(
    values: Floats,
    mask: Bools | None,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    title: str,
    top: float | None = None,
    dark: bool = False,
    words: Words,
    **titles: Any,
) -> Figure:
    """One head's scores [query, key] as a heatmap like that of its weights; blocked cells hatched.

    `top` is the number at the ends of the scale (None: the largest there is), so that two of them
    can share it. Raises ValueError naming the sizes when the inputs disagree.
    """
    colours = palette(dark)
    allowed = np.ones(values.shape, bool) if mask is None else mask
    figure = attention(
        np.zeros(values.shape, np.float32),
        allowed,
        query_tokens,
        key_tokens,
        dark=dark,
        words=words,
        **titles,
    )
    limit = max(1e-6, float(np.abs(values[allowed]).max(initial=0.0)) if top is None else top)
    said = np.char.replace(np.char.mod("%.2f", values), "-", "−").astype(object)
    figure["data"][0] |= {
        "z": np.where(allowed, values, np.nan).astype(np.float32),
        "text": np.where(allowed, said, figure["data"][0]["text"]),
        "colorscale": colorscale(colours.diverging),
        "zmin": -limit,
        "zmax": limit,
        "colorbar": colorbar(
            colours,
            title,
            tickvals=[-limit, 0, limit],
            ticktext=ends(limit),
        ),
    }
    return figure
