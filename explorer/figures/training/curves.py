"""Training curves over steps, each with its own points, and bands over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from explorer.figures.curves import DASHES
from explorer.figures.frame import LEGEND, Figure, layout, number_axis
from explorer.figures.theme import escape, palette


@dataclass(frozen=True)
class Curve:
    """Values over steps.

    `low` and `high` bound a band; a `faint` curve is drawn behind the others. `like` is the index
    of its colour and dash (None: its own index).
    """

    name: str
    x: ArrayLike
    y: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    faint: bool = False
    like: int | None = None


APART = 0.25
"""Fraction of the axis that the label of a mark takes."""


def over_steps(
    curves: Sequence[Curve],
    *,
    x_title: str,
    y_title: str,
    last: int,
    marks: Sequence[tuple[int, str]] = (),
    level: tuple[float, str] | None = None,
    log_y: bool = False,
    percent: bool = False,
    height: int = 250,
    dark: bool = False,
) -> Figure:
    """Curves from step 0 to step `last`; `marks` are vertical lines, each with a label.

    `level` is a horizontal line with its name. NaN is left out.
    """
    colours = palette(dark)
    traces: list[Figure] = []
    for at, curve in enumerate(curves):
        like = at if curve.like is None else curve.like
        colour = colours.curves[like % len(colours.curves)]
        name = escape(curve.name)
        if curve.low is not None and curve.high is not None:
            x = np.asarray(curve.x)
            traces.append(
                {
                    "type": "scatter",
                    "x": np.concatenate([x, x[::-1]]),
                    "y": np.concatenate([np.asarray(curve.low), np.asarray(curve.high)[::-1]]),
                    "fill": "toself",
                    "fillcolor": colour,
                    "opacity": 0.18,
                    "line": {"width": 0},
                    "mode": "lines",
                    "hoverinfo": "skip",
                    "showlegend": False,
                }
            )
        few = len(np.asarray(curve.x)) < 60
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if few and not curve.faint else "lines",
                "marker": {"size": 5},
                "x": np.asarray(curve.x),
                "y": np.asarray(curve.y, np.float32),
                "name": name,
                "opacity": 0.3 if curve.faint else 1,
                "showlegend": not curve.faint,
                "line": {"color": colour, "dash": DASHES[like % len(DASHES)], "width": 2},
                "hovertemplate": f"{name}: <b>%{{y:{'.1%' if percent else '.4~g'}}}</b>"
                "<extra></extra>",
            }
        )
    frame = layout(
        colours,
        height,
        showlegend=sum(not curve.faint for curve in curves) > 1,
        legend=LEGEND,
        hovermode="x unified",
    )
    frame["xaxis"] = number_axis(colours, x_title, showgrid=False, range=[0, max(1, last)])
    across = {"tickformat": ".0%", "range": [0, 1.03]} if percent else {"rangemode": "tozero"}
    if log_y:
        across = {"type": "log", "dtick": "D2"}
    frame["yaxis"] = number_axis(colours, y_title, **across)
    lines = [(step, word, colours.accent) for step, word in marks]
    frame["shapes"] = [_upright(step, colour) for step, _, colour in lines]
    frame["annotations"], free = [], -1.0
    for step, word, colour in lines:
        if step > free:  # skip a label that would overlap the one before
            frame["annotations"].append(_word(step, word, colour))
            free = step + APART * last
    if level is not None and not log_y:
        frame["shapes"].append(_across(level[0], colours.muted))
        frame["annotations"].append(
            {
                "x": 1,
                "xref": "paper",
                "xanchor": "right",
                "y": level[0],
                "yanchor": "bottom",
                "text": escape(level[1]),
                "showarrow": False,
                "font": {"color": colours.muted, "size": 11},
            }
        )
    return {"data": traces, "layout": frame}


def _upright(step: int, colour: str) -> Figure:
    line = {"color": colour, "width": 1, "dash": "dot"}
    return {"type": "line", "yref": "paper", "x0": step, "x1": step, "y0": 0, "y1": 1, "line": line}


def _across(value: float, colour: str) -> Figure:
    line = {"color": colour, "width": 1, "dash": "dot"}
    at = {"x0": 0, "x1": 1, "y0": value, "y1": value}
    return {"type": "line", "xref": "paper", **at, "line": line}


def _word(step: int, word: str, colour: str) -> Figure:
    return {
        "x": step,
        "y": 1,
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "top",
        "text": escape(word),
        "showarrow": False,
        "font": {"color": colour, "size": 11},
    }
