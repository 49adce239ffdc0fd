"""Curves over one number axis: waves, dot products by distance, losses, histograms."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from explorer.figures import frame as f
from explorer.figures.theme import FONT, escape, palette

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""A dash pattern for each curve colour, so that no two curves differ in colour alone."""


def lines(
    x: NDArray[np.integer] | f.Floats,
    ys: f.Floats,
    names: Sequence[str],
    *,
    x_title: str,
    y_title: str,
    log_x: bool = False,
    log_y: bool = False,
    marked_x: float | None = None,
    height: int = 320,
    points: bool = False,
    steps: bool = False,
    from_zero: bool = False,
    dark: bool = False,
) -> f.Figure:
    """One curve per row of `ys` [curve, x], with a legend above.

    `marked_x` draws a vertical line at the current step or position. `points` marks each value,
    `steps` draws a staircase, `from_zero` lets the y axis begin at 0. Raises ValueError with the
    sizes if they disagree.
    """
    f.check_shape("ys", ys, (len(names), len(x)))
    colours = palette(dark)
    traces = [
        f.scatter(
            np.asarray(x),
            np.asarray(y, np.float32),
            "lines+markers" if points else "lines",
            name=escape(name),
            line={
                "color": colours.curves[index % len(colours.curves)],
                "dash": DASHES[index % len(DASHES)],
                "width": 2,
                "shape": "hvh" if steps else "linear",
            },
            hovertemplate=f"{escape(name)}: <b>%{{y:.4~g}}</b><extra></extra>",
        )
        for index, (name, y) in enumerate(zip(names, ys, strict=True))
    ]
    frame = f.layout(colours, height, legend=len(names) > 1, hovermode="x unified")
    along = {"type": "log", "dtick": 1} if log_x else {}
    frame["xaxis"] = f.number_axis(colours, x_title, **{"showgrid": False, **along})
    up = f.log_axis(ys) if log_y else {"rangemode": "tozero"} if from_zero else {}
    frame["yaxis"] = f.number_axis(colours, y_title, **up)
    if marked_x is not None:
        frame["shapes"] = [f.line(colours.accent, (marked_x, marked_x), (0, 1), yref="paper")]
    return {"data": traces, "layout": frame}


def unmeasured(text: str, x_title: str, y_title: str = "", *, dark: bool = False) -> f.Figure:
    """The axes of a picture that is still to be measured, in grey and without a number; in its
    middle a text."""
    colours = palette(dark)
    frame = f.layout(colours, 200, font={"family": FONT, "size": 13, "color": colours.muted})
    for name, title in (("xaxis", x_title), ("yaxis", y_title)):
        axis = f.number_axis(colours, title, showticklabels=False, showgrid=False, range=(0, 2))
        frame[name] = {**axis, "showline": True, "linecolor": colours.line}
    return {"data": [f.scatter([1], [1], "text", text=[escape(text)])], "layout": frame}


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
    shares = np.array([np.histogram(value, edges)[0] / max(len(value), 1) for value in values])
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
