"""Positional encodings: the table, its wavelengths, selected waves, and dot products."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from explorer.figures.curves import lines
from explorer.figures.frame import (
    BAR_ROOM,
    Figure,
    Floats,
    Words,
    axis,
    check_shape,
    colorbar,
    layout,
    number_axis,
)
from explorer.figures.theme import colorscale, escape, palette


def table(values: Floats, *, dark: bool = False, words: Words) -> Figure:
    """The encoding itself, [pos, d_model]: one row per position, one column per dimension."""
    return _square(values, (words["position"], words["dimension"]), words["value"], dark)


def gram(values: Floats, *, dark: bool = False, words: Words) -> Figure:
    """Dot products of every pair of positions, [pos, pos]; stripes: they depend on distance
    only."""
    check_shape("values", values, (len(values), len(values)))
    return _square(values, (words["position"], words["other_position"]), words["dot"], dark)


def wavelengths(
    lengths: Floats,
    *,
    n_ctx: int | None = None,
    marked: Sequence[int] = (),
    dark: bool = False,
    words: Words,
) -> Figure:
    """Wavelength of each dimension in positions, [d_model], on a log axis.

    `n_ctx` draws the longest text as a line: a longer wave never repeats within a text. `marked`
    dimensions are drawn large. Raises ValueError for a marked dimension that does not exist.
    """
    colours = palette(dark)
    if any(not 0 <= dim < len(lengths) for dim in marked):
        raise ValueError(f"marked is {tuple(marked)}, but there are {len(lengths)} dimensions")
    dims = np.arange(len(lengths))
    big = np.isin(dims, np.asarray(marked, int))
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": dims,
        "y": np.asarray(lengths, np.float32),
        "marker": {
            "color": np.where(big, colours.curves[1], colours.curves[0]),
            "size": np.where(big, 11, 5),
        },
        "hovertemplate": f"{escape(words['dimension'])} <b>%{{x}}</b><br>"
        f"{escape(words['wavelength'])} <b>%{{y:.4~g}}</b><extra></extra>",
    }
    frame = layout(colours, 320)
    frame["xaxis"] = number_axis(colours, words["dimension"], showgrid=False)
    frame["yaxis"] = number_axis(
        colours, words["wavelength"], type="log", dtick=1, exponentformat="none"
    )
    if n_ctx is not None:
        frame["shapes"] = [
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": n_ctx,
                "y1": n_ctx,
                "line": {"color": colours.muted, "width": 1, "dash": "dash"},
                "label": {
                    "text": f"{escape(words['longest_text'])}: {n_ctx}",
                    "textposition": "start",
                    "font": {"size": 12, "color": colours.muted},
                },
            }
        ]
    return {"data": [trace], "layout": frame}


def waves(values: Floats, dims: Sequence[int], *, dark: bool = False, words: Words) -> Figure:
    """The selected columns of the table, [pos, d_model], as curves over position.

    Raises ValueError if a dimension is out of range.
    """
    if any(not 0 <= dim < values.shape[1] for dim in dims):
        raise ValueError(f"dims is {tuple(dims)}, but the table has {values.shape[1]} dimensions")
    return lines(
        np.arange(len(values)),
        values.T[list(dims)],
        [f"{words['dimension']} {dim}" for dim in dims],
        x_title=words["position"],
        y_title=words["value"],
        dark=dark,
    )


def dot_by_distance(
    distances: NDArray[np.integer] | Floats,
    dots: Floats,
    names: Sequence[str],
    *,
    dark: bool = False,
    words: Words,
) -> Figure:
    """Dot product against distance, one curve per row of `dots` [curve, distance].

    Raises ValueError with the sizes if distances, curves and names disagree.
    """
    return lines(distances, dots, names, x_title=words["distance"], y_title=words["dot"], dark=dark)


def _square(values: Floats, titles: tuple[str, str], name: str, dark: bool) -> Figure:
    colours = palette(dark)
    limit = float(np.abs(values).max(initial=1e-6))
    hover = f"{escape(titles[0])} <b>%{{y}}</b><br>{escape(titles[1])} <b>%{{x}}</b><br>"
    trace = {
        "type": "heatmap",
        "z": np.asarray(values, np.float32),
        "colorscale": colorscale(colours.diverging),
        "zmin": -limit,
        "zmax": limit,
        "colorbar": colorbar(colours, name),
        "hovertemplate": f"{hover}{escape(name)} <b>%{{z:.3f}}</b><extra></extra>",
    }
    frame = layout(colours, 460)
    frame["margin"]["b"] = BAR_ROOM
    muted = {"color": colours.muted}
    frame["xaxis"] = axis(colours, titles[1], side="top", tickfont=muted)
    frame["yaxis"] = axis(colours, titles[0], autorange="reversed", tickfont=muted)
    return {"data": [trace], "layout": frame}
