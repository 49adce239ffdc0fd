"""Fall of a probability as words are removed: one curve per ranking, and the band of random
orders."""

from collections.abc import Sequence

import numpy as np

from explorer.figures import frame as f
from explorer.figures.curves import lines
from explorer.figures.theme import escape, palette


def falls(
    steps: Sequence[int],
    curves: f.Floats,
    names: Sequence[str],
    random: f.Floats,
    *,
    random_name: str,
    x_title: str,
    y_title: str,
    dark: bool = False,
) -> f.Figure:
    """Probabilities [ranking, step], and the mean ± one standard deviation over random orders
    [order, step]. Raises ValueError with the sizes if they disagree."""
    f.check_shape("random", random, (len(random), len(steps)))
    mean, spread = random.mean(0), random.std(0)
    x = np.asarray(steps)
    figure = lines(
        x,
        np.concatenate([curves, mean[None]]),
        [*names, random_name],
        x_title=x_title,
        y_title=y_title,
        height=340,
        dark=dark,
    )
    colours = palette(dark)
    for trace in figure["data"]:
        trace["mode"] = "lines+markers"
    figure["data"][-1]["line"] = {"color": colours.muted, "width": 2, "dash": "dot"}
    band = f.scatter(
        np.concatenate([x, x[::-1]]),
        np.clip(np.concatenate([mean + spread, (mean - spread)[::-1]]), 0, 1),
        fill="toself",
        fillcolor=colours.blocked,
        line={"width": 0},
        name=escape(random_name),
        showlegend=False,
        hoverinfo="skip",
    )
    figure["data"].insert(0, band)
    figure["layout"]["yaxis"] |= {"rangemode": "tozero", "tickformat": ".0%"}
    return figure
