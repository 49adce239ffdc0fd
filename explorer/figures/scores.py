"""Scores of a head before the softmax: signed numbers on a diverging scale."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from explorer.figures import frame as f
from explorer.figures.heatmap import plotted, weights
from explorer.figures.matrix import Matrix, Scale, counted


def scores(*cells: Any, dark: bool = False, words: f.Words, **more: Any) -> f.Figure:
    """Scores as a Plotly figure; same arguments and errors as `scored`."""
    return plotted(scored(*cells, words=words, **more), dark=dark, words=words)


def scored(
    values: f.Floats,
    mask: f.Bools | None,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    title: str,
    top: float | None = None,
    words: f.Words,
    **titles: Any,
) -> Matrix:
    """One head's scores [query, key] as a heatmap like the one of its weights; blocked cells are
    hatched.

    `top` is the value at the ends of the scale (None: the largest magnitude), so that two heatmaps
    can share a scale. Raises ValueError with the sizes if the inputs disagree.
    """
    nothing = np.zeros(values.shape, np.float32)
    matrix = weights(nothing, mask, query_tokens, key_tokens, words=words, **titles)
    allowed = ~matrix.blocked
    limit = max(1e-6, float(np.abs(values[allowed]).max(initial=0.0)) if top is None else top)
    written = np.char.replace(np.char.mod("%.2f", values), "-", "−").astype(object)
    shut = np.array(matrix.texts, object)[matrix.said]
    texts, said = counted(np.where(allowed, written, shut))
    ticks = zip((-limit, 0, limit), f.ends(limit), strict=True)
    return replace(
        matrix,
        values=values,
        texts=texts,
        said=said,
        scale=Scale("diverging", -limit, limit, title, tuple(ticks)),
    )
