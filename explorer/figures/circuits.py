"""Figures of circuits: heads marked by their role, and how heads compose."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from explorer.figures import frame as f
from explorer.figures.theme import palette
from explorer.numbers import fixed


def composed(
    scores: f.Floats,
    heads: Sequence[tuple[int, int]],
    *,
    baseline: float,
    dark: bool = False,
    words: f.Words,
) -> f.Figure:
    """Scores [later, earlier] of heads (layer, head) in order; NaN cells are left blank. The scale
    starts at the score of random matrices, so coloured cells exceed it. The first head of each
    layer is labelled.

    Raises ValueError with the sizes if they disagree.
    """
    n, names = len(heads), [f"{layer + 1}.{head + 1}" for layer, head in heads]
    f.check_shape("scores", scores, (n, n))
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
    heatmap = f.heatmap(
        scores,
        colours.attention,
        (baseline, top),
        gap=1 if n <= 48 else 0,
        text=text,
        hovertemplate="%{text}<extra></extra>",
        hoverongaps=False,
        colorbar=f.colorbar(
            colours,
            title=words["score"],
            tickvals=[baseline, top],
            ticktext=[fixed(baseline, 3), fixed(top, 3)],
            tickangle=0,
            len=330,  # the title takes half of it
        ),
    )
    ticks = [at for at, (layer, _) in enumerate(heads) if at == 0 or heads[at - 1][0] < layer]
    labels = [names[at] for at in ticks]
    size = max(200, min(620, 20 * n))
    frame = f.layout(colours, 56 + size + f.BAR_ROOM, below=f.BAR_ROOM)
    shown: f.Figure = {"tickvals": ticks, "ticktext": labels, "fixedrange": True}
    frame["xaxis"] = f.axis(colours, words["earlier"], side="top", **shown)
    frame["yaxis"] = f.axis(colours, words["later"], autorange="reversed", **shown)
    return {"data": [heatmap], "layout": frame}


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
