"""Composition scores: how much each head reads from each earlier head."""

from collections.abc import Sequence

import numpy as np

from explorer.figures.frame import (
    BAR_ROOM,
    Figure,
    Floats,
    Words,
    axis,
    check_shape,
    colorbar,
    layout,
)
from explorer.figures.theme import colorscale, palette
from explorer.numbers import fixed


def composed(
    scores: Floats,
    heads: Sequence[tuple[int, int]],
    *,
    baseline: float,
    dark: bool = False,
    words: Words,
) -> Figure:
    """Scores [later, earlier] of heads (layer, head) in order; NaN cells are left blank. The scale
    starts at the score of random matrices, so coloured cells exceed it. The first head of each
    layer is labelled.

    Raises ValueError with the sizes if they disagree.
    """
    n, names = len(heads), [f"{layer + 1}.{head + 1}" for layer, head in heads]
    check_shape("scores", scores, (n, n))
    colours = palette(dark)
    top = float(np.nanmax(scores, initial=baseline))
    top = max(top, baseline * 1.05)
    text = np.array(
        [
            [
                f"{names[later]} ← {names[earlier]}: {fixed(float(scores[later, earlier]), 3)}"
                for earlier in range(n)
            ]
            for later in range(n)
        ],
        object,
    )
    heatmap = {
        "type": "heatmap",
        "z": scores.astype(np.float32),
        "zmin": baseline,
        "zmax": top,
        "colorscale": colorscale(colours.attention),
        "text": text,
        "hovertemplate": "%{text}<extra></extra>",
        "hoverongaps": False,
        "xgap": 1 if n <= 48 else 0,
        "ygap": 1 if n <= 48 else 0,
        "colorbar": colorbar(
            colours,
            title=words["score"],
            tickvals=[baseline, top],
            ticktext=[fixed(baseline, 3), fixed(top, 3)],
        ),
    }
    ticks = [at for at, (layer, _) in enumerate(heads) if at == 0 or heads[at - 1][0] < layer]
    labels = [names[at] for at in ticks]
    size = max(200, min(620, 20 * n))
    frame = layout(colours, 56 + size + BAR_ROOM)
    frame["margin"]["b"] = BAR_ROOM
    shown: Figure = {"tickvals": ticks, "ticktext": labels, "fixedrange": True}
    frame["xaxis"] = axis(colours, words["earlier"], side="top", **shown)
    frame["yaxis"] = axis(colours, words["later"], autorange="reversed", **shown)
    return {"data": [heatmap], "layout": frame}
