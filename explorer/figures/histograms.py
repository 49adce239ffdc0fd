"""Outlined histograms of several score distributions on one axis."""

from collections.abc import Sequence

import numpy as np

from explorer.figures import frame as f
from explorer.figures.curves import lines


def histograms(
    values: Sequence[f.Floats],
    names: Sequence[str],
    limit: float,
    *,
    x_title: str,
    y_title: str,
    bins: int = 41,
    dark: bool = False,
) -> f.Figure:
    """The share of each array in each bin from -`limit` to `limit`, in percent.

    Values outside count in the total, so a curve may sum to less than 100 %. Raises ValueError with
    the sizes if arrays and names disagree.
    """
    edges = np.linspace(-limit, limit, bins + 1)
    shares = np.array([np.histogram(each, edges)[0] / max(len(each), 1) for each in values])
    figure = lines(
        (edges[:-1] + edges[1:]) / 2,
        100 * shares,
        names,
        x_title=x_title,
        y_title=y_title,
        height=300,
        dark=dark,
    )
    for trace in figure["data"]:
        trace["line"]["shape"] = "hvh"
    figure["layout"]["xaxis"] |= {"range": [-limit, limit], "hoverformat": ".3~g"}
    figure["layout"]["yaxis"]["rangemode"] = "tozero"
    return figure
