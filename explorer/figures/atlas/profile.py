"""The weight of one head by distance."""

import numpy as np

from explorer.figures import frame as f
from explorer.figures.theme import escape, palette
from explorer.numbers import minus


def by_distance(
    weights: f.Floats,
    reach: int,
    *,
    dark: bool = False,
    words: f.Words,
) -> f.Figure:
    """Mean weight [2 reach + 1] on keys at each distance from the query, in percent.

    The outermost bars include all larger distances. Distances that do not occur are left out.
    Raises ValueError with the sizes if they disagree.
    """
    f.check_shape("weights", weights, (2 * reach + 1,))
    far = np.arange(-reach, reach + 1)
    shown = np.isfinite(weights)
    colours = palette(dark)
    at = far[shown]
    labels = [
        f"≤ {minus(str(d))}" if d == -reach else f"≥ {d}" if d == reach else minus(str(d))
        for d in at
    ]
    bars: f.Figure = f.bar(
        at,
        (weights[shown] * 100).astype(np.float32),
        customdata=labels,
        marker={"color": colours.attention[2]},
        hovertemplate=f"{escape(words['distance'])} %{{customdata}}: <b>%{{y:.3~g}} %</b>"
        "<extra></extra>",
    )
    frame = f.layout(colours, 260, bargap=0.15)
    step = 8 if len(at) > 20 else 2 if len(at) > 10 else 1
    ticks = [i for i, d in enumerate(at) if d % step == 0]
    frame["xaxis"] = f.number_axis(
        colours,
        words["distance_axis"],
        showgrid=False,
        fixedrange=True,
        tickvals=[int(at[i]) for i in ticks],
        ticktext=[labels[i] for i in ticks],
    )
    frame["yaxis"] = f.number_axis(
        colours, words["weight"], ticksuffix=" %", rangemode="tozero", fixedrange=True, nticks=5
    )
    return {"data": [bars], "layout": frame}
