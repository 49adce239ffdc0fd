"""The loss of each token of a few sequences, with the token in its cell."""

from collections.abc import Sequence

import numpy as np

from explorer.figures import frame as f
from explorer.figures.theme import escape, palette, show


def token_losses(
    labels: Sequence[Sequence[str]],
    losses: Sequence[Sequence[float]],
    *,
    title: str,
    x_title: str,
    dark: bool = False,
) -> f.Figure:
    """One cell per label, darker for a higher loss in nats; sequences may differ in length.

    Raises ValueError if labels and losses differ in length.
    """
    if list(map(len, labels)) != list(map(len, losses)):
        raise ValueError("labels and losses have different lengths")
    colours = palette(dark)
    width = max(map(len, labels), default=0)
    values = np.full((len(labels), width), np.nan, np.float32)
    for at, row in enumerate(losses):
        values[at, : len(row)] = row
    text = [[escape(show(each)) for each in row] + [""] * (width - len(row)) for row in labels]
    top = float(np.nanmax(values)) if np.isfinite(values).any() else 1.0
    trace = f.heatmap(
        values,
        colours.attention,
        (0, top),
        gap=2,
        text=text,
        texttemplate="%{text}",
        colorbar=f.colorbar(colours, title),
        hovertemplate="%{text}: <b>%{z:.3f}</b><extra></extra>",
    )
    margin = {"l": 8, "r": 8, "t": 8, "b": f.BAR_ROOM + 30}
    frame = f.layout(colours, 90 + f.BAR_ROOM + 30 * len(labels), margin=margin)
    frame["xaxis"] = f.axis(colours, x_title, tickmode="linear", dtick=1)
    frame["yaxis"] = f.axis(colours, "", autorange="reversed", showticklabels=False)
    return {"data": [trace], "layout": frame}
