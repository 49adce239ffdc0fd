"""Positional encodings: the table, its wavelengths, selected waves, and dot products."""

from collections.abc import Sequence

import numpy as np

from explorer.figures import frame as f
from explorer.figures.matrix import Axis, Matrix, signed
from explorer.figures.theme import escape, palette


def table(values: f.Floats, *, limit: float | None = None, words: f.Words) -> Matrix:
    """The encoding itself, [pos, d_model]: one row per position, one column per dimension."""
    n, width = values.shape
    axes = Axis.numbers(n, words["position"]), Axis.numbers(width, words["dimension"])
    return signed(values, axes, words["value"], limit=limit)


def gram(values: f.Floats, *, words: f.Words) -> Matrix:
    """Dot products of every pair of positions, [pos, pos]; stripes: they depend on distance
    only."""
    rows, columns = (
        Axis.numbers(len(values), words[name]) for name in ("position", "other_position")
    )
    return signed(values, (rows, columns), words["dot"])


def wavelengths(
    lengths: f.Floats,
    *,
    n_ctx: int | None = None,
    marked: Sequence[int] = (),
    dark: bool = False,
    words: f.Words,
) -> f.Figure:
    """Wavelength of each dimension in positions, [d_model], on a log axis.

    `n_ctx` draws the longest text as a line: a longer wave never repeats within a text. `marked`
    dimensions are drawn large. Raises ValueError for a marked dimension that does not exist.
    """
    colours = palette(dark)
    if any(not 0 <= dim < len(lengths) for dim in marked):
        raise ValueError(f"marked is {tuple(marked)}, but there are {len(lengths)} dimensions")
    dims = np.arange(len(lengths))
    big = np.isin(dims, np.asarray(marked, int))
    trace = f.scatter(
        dims,
        np.asarray(lengths, np.float32),
        "markers",
        marker={
            "color": np.where(big, colours.curves[1], colours.curves[0]),
            "size": np.where(big, 11, 5),
        },
        hovertemplate=f"{escape(words['dimension'])} <b>%{{x}}</b><br>"
        f"{escape(words['wavelength'])} <b>%{{y:.4~g}}</b><extra></extra>",
    )
    frame = f.layout(colours, 320)
    frame["xaxis"] = f.number_axis(colours, words["dimension"], showgrid=False)
    frame["yaxis"] = f.number_axis(
        colours, words["wavelength"], type="log", dtick=1, exponentformat="none"
    )
    if n_ctx is not None:
        label = {
            "text": f"{escape(words['longest_text'])}: {n_ctx}",
            "textposition": "start",
            "font": {"size": 12, "color": colours.muted},
        }
        across = f.line(colours.muted, (0, 1), (n_ctx, n_ctx), "dash", xref="paper", label=label)
        frame["shapes"] = [across]
    return {"data": [trace], "layout": frame}
