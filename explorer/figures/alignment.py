"""Word alignment: links as lines or on a matrix of weights."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from explorer.figures import frame as f
from explorer.figures.matrix import Axis, Mark, Matrix, Shape, weights
from explorer.figures.theme import Palette, clipped, escape, palette, show
from explorer.numbers import percents

FOUND = ("both", "forward", "reverse")
"""Which directions found a link: both, or one of them."""
DASH = {"both": "solid", "forward": "dash", "reverse": "dot"}
SHAPE: dict[str, Shape] = {"both": "square", "forward": "circle", "reverse": "diamond"}
ROW, LEAST_ROW, MOST_LABEL = 30, 18, 26


def lines(
    src: Sequence[str],
    tgt: Sequence[str],
    links: f.Bools,
    found_by: NDArray[np.str_] | NDArray[np.object_],
    weights: f.Floats,
    *,
    titles: tuple[str, str],
    dark: bool = False,
    words: f.Words,
) -> f.Figure:
    """Source words on the left, target words on the right, and a line for every link.

    `links`, `found_by` (one of FOUND where there is a link) and `weights` are [tgt_word, src_word].
    Raises ValueError with the sizes if they disagree.
    """
    shape = (len(tgt), len(src))
    for name, array in (("links", links), ("found_by", found_by), ("weights", weights)):
        f.check_shape(name, array, shape)
    colours = palette(dark)
    rows = max(shape)
    heights = {"src": _spread(len(src), rows), "tgt": _spread(len(tgt), rows)}
    names = present(links, found_by)
    traces = [
        _drawn(name, links & (found_by == name), heights, colours, words[name]) for name in names
    ]
    traces.append(_middles(src, tgt, links, found_by, weights, heights, words))
    step = ROW if rows <= 16 else max(LEAST_ROW, 480 // rows)
    frame = f.layout(colours, 64 + step * rows, legend=len(names) > 1)
    quiet = {"visible": False, "fixedrange": True}
    frame["xaxis"] = {**quiet, "range": [-0.62, 1.62]}
    frame["yaxis"] = {**quiet, "range": [rows - 0.4, -1.3]}
    labels = []
    for side, texts, title, at, anchor in (
        ("src", src, titles[0], -0.04, "right"),
        ("tgt", tgt, titles[1], 1.04, "left"),
    ):
        colour = colours.source if side == "src" else colours.target
        labels.append(_label(f"<i>{escape(title)}</i>", at, -1.0, anchor, colours.muted))
        labels += [
            _label(escape(clipped(show(text), MOST_LABEL)), at, float(y), anchor, colour)
            for text, y in zip(texts, heights[side], strict=True)
        ]
    frame["annotations"] = labels
    return {"data": traces, "layout": frame}


def matrix(
    src: Sequence[str],
    tgt: Sequence[str],
    values: f.Floats,
    links: f.Bools,
    found_by: NDArray[np.str_] | NDArray[np.object_],
    *,
    titles: tuple[str, str],
    words: f.Words,
    weight_words: f.Words,
) -> Matrix:
    """The weights between words [tgt_word, src_word], with a marker on every link."""
    marks = [
        Mark(SHAPE[name], np.argwhere(links & (found_by == name)).tolist(), words[name])
        for name in present(links, found_by)
    ]
    axes = Axis(tgt, titles[1], "tgt"), Axis(src, titles[0], "src")
    return weights(values, None, axes, marks=marks, words=weight_words)


def present(links: f.Bools, found_by: NDArray[np.str_] | NDArray[np.object_]) -> list[str]:
    """The values of FOUND that occur, in the order of FOUND."""
    return [name for name in FOUND if (links & (found_by == name)).any()]


def _spread(count: int, rows: int) -> f.Floats:
    """The vertical positions of `count` words, evenly spaced over `rows` rows of the longer
    text."""
    if count <= 1 or count == rows:
        return np.arange(count, dtype=np.float64) + (rows - 1) / 2 * (count == 1)
    return np.linspace(0, rows - 1, count)


def _drawn(
    name: str, links: f.Bools, heights: dict[str, f.Floats], colours: Palette, label: str
) -> f.Figure:
    xs: list[float | None] = []
    ys: list[float | None] = []
    for tgt, src in np.argwhere(links):
        xs += [0.0, 1.0, None]
        ys += [float(heights["src"][src]), float(heights["tgt"][tgt]), None]
    return f.scatter(
        xs,
        ys,
        name=escape(label),
        line={
            "color": colours.accent if name == "both" else colours.muted,
            "dash": DASH[name],
            "width": 2.5 if name == "both" else 1.8,
        },
        hoverinfo="skip",
    )


def _middles(
    src: Sequence[str],
    tgt: Sequence[str],
    links: f.Bools,
    found_by: NDArray[np.str_] | NDArray[np.object_],
    weights: f.Floats,
    heights: dict[str, f.Floats],
    words: f.Words,
) -> f.Figure:
    """One invisible point in the middle of each line, with hover text for the link."""
    places = np.argwhere(links)
    shown = percents(weights)
    return f.scatter(
        np.full(len(places), 0.5, np.float32),
        np.array(
            [(heights["src"][at] + heights["tgt"][row]) / 2 for row, at in places], np.float32
        ),
        "markers",
        marker={"size": 16, "opacity": 0},
        showlegend=False,
        **f.said(
            [
                f"<b>{escape(show(src[at]))} – {escape(show(tgt[row]))}</b><br>"
                f"{escape(words[str(found_by[row, at])])}<br>"
                f"{escape(words['weight'])} {shown[row, at]}"
                for row, at in places
            ]
        ),
    )


def _label(text: str, x: float, y: float, anchor: str, colour: str) -> f.Figure:
    return f.note(text, x, y, colour, 15, xanchor=anchor, yanchor="middle")
