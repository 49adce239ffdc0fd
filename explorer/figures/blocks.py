"""Inside a block: the residual stream, norms, and the units of the feed-forward network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from explorer.figures import frame as f
from explorer.figures.matrix import Axis, Matrix, Scale, signed
from explorer.figures.theme import Stream, escape, palette, show
from explorer.numbers import digits

Placement = Literal["post", "pre", "sublayer"]
WIDTH, FORK, JOIN = 10.0, 1.9, 6.3
ROOM = 150
"""Height of one placement in pixels."""


@dataclass(frozen=True)
class WiringNumbers:
    """The numbers of one wiring diagram: before the sublayer, on its branch, and after it."""

    before: str
    added: str
    behind: str
    back: str  # below the line: the gradient of the backward pass


def wiring(
    numbers: Mapping[Placement, WiringNumbers], *, dark: bool = False, words: f.Words
) -> f.Figure:
    """One sublayer in each placement: stream, branch with f and its norm, the sum, and numbers.

    The thick line is the residual stream; every gradient passes through what is drawn on it.
    """
    colours = palette(dark)
    shapes: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    for row, (placement, shown) in enumerate(numbers.items()):
        base = -3.0 * row
        thick = {"color": colours.accent, "width": 4}
        thin = {"color": colours.muted, "width": 2}
        shapes.append(_line(0, base, WIDTH, base, thick))
        shapes += [
            _line(FORK, base, FORK, base + 1, thin),
            _line(FORK, base + 1, JOIN, base + 1, thin),
            _line(JOIN, base + 1, JOIN, base, thin),
        ]
        boxes: list[tuple[float, float, str]] = {
            "post": [(4.1, base + 1, "f"), (7.5, base, words["norm"])],
            "pre": [(3.3, base + 1, words["norm"]), (5.1, base + 1, "f")],
            "sublayer": [(3.1, base + 1, "f"), (4.9, base + 1, words["norm"])],
        }[placement]
        for x, y, text in boxes:
            on_stream = y == base
            shapes.append(_box(x, y, colours.accent if on_stream else colours.muted, colours.paper))
            notes.append(f.note(text, x, y, colours.ink, 13, xanchor="center"))
        notes.append(f.note("+", JOIN, base, colours.ink, 16, xanchor="center"))
        title = f"<b>{escape(words[placement])}</b>"
        notes.append(f.note(title, 0, base + 1.6, colours.ink, 14, xanchor="left"))
        for x, y, text, anchor in (
            (0.0, base - 0.54, shown.before, "left"),
            (JOIN + 0.15, base + 0.75, shown.added, "left"),
            (WIDTH, base - 0.54, shown.behind, "right"),
        ):
            notes.append(f.note(text, x, y, colours.ink, xanchor=anchor))
        notes.append(f.note(shown.back, 0.0, base - 0.92, colours.muted, xanchor="left"))
    frame = f.layout(colours, ROOM * len(numbers), shapes=shapes, annotations=notes)
    hidden = {"visible": False, "fixedrange": True}
    frame["xaxis"] = {**hidden, "range": [-0.1, WIDTH + 0.1]}
    frame["yaxis"] = {**hidden, "range": [-3.0 * (len(numbers) - 1) - 1.2, 1.95]}
    joins = f.scatter(
        [JOIN] * len(numbers),
        [-3.0 * row for row in range(len(numbers))],
        "markers",
        marker={
            "size": 24,
            "color": colours.paper,
            "opacity": 1,
            "line": {"color": colours.ink, "width": 2},
        },
        hoverinfo="skip",
    )
    return {"data": [joins], "layout": frame}


def _line(x0: float, y0: float, x1: float, y1: float, line: Mapping[str, Any]) -> dict[str, Any]:
    ends = {"x0": x0, "y0": y0, "x1": x1, "y1": y1}
    return {"type": "line", **ends, "line": line, "layer": "below"}


def _box(x: float, y: float, line: str, fill: str) -> dict[str, Any]:
    corners = {"x0": x - 0.8, "x1": x + 0.8, "y0": y - 0.32, "y1": y + 0.32}
    outline = {"color": line, "width": 2}
    return {"type": "rect", **corners, "line": outline, "fillcolor": fill, "layer": "below"}


CHARACTERS, CHARACTER, NORM_ROW = 60, 7, 30
"""Approximate number of characters that fit side by side, the width of one, and the height of a
sentence in pixels."""


def by_token(
    values: f.Floats,
    tokens: Sequence[Sequence[str]],
    names: Sequence[str],
    *,
    title: str,
    top: float,
) -> Matrix:
    """One number per token, [sentence, pos], with the token in the cell.

    Colours run from 0 to `top`, or from -`top` to `top` if a value is negative.
    Raises ValueError with the sizes if they disagree.
    """
    written = np.array([[show(token) for token in row] for row in tokens], object)
    texts = written + " · " + np.vectorize(digits, otypes=[object])(values)
    columns, longest = values.shape[1], max(4, CHARACTERS // max(1, values.shape[1]))
    return Matrix(
        (Axis(names), Axis([None] * columns)),
        values,
        _from_zero(values, title, top),
        texts=texts,
        written=written,
        least=(CHARACTER * longest + 10, NORM_ROW),
    )


def by_feature(values: f.Floats, *, title: str, x_title: str, top: float) -> Matrix:
    """One number per feature, [d_model], as one row of thin cells."""
    axes = Axis([None]), Axis.numbers(len(values), x_title)
    return Matrix(axes, values[None], _from_zero(values, title, top), least=(0, 32))


def _from_zero(values: f.Floats, title: str, top: float) -> Scale:
    if (values < 0).any():
        return Scale.around_zero(top, title)
    return Scale("attention", 0, top, title, ((0, "0"), (top, digits(top))))


def units(
    values: f.Floats,
    numbers: Sequence[int] | NDArray[np.integer],
    tokens: Sequence[str],
    *,
    title: str,
    x_title: str,
    y_title: str,
    stream: Stream,
) -> Matrix:
    """Selected units [pos, unit] on a diverging scale; `numbers` are their indices in the network.

    Raises ValueError with the sizes if they disagree.
    """
    columns = Axis([str(number) for number in numbers], x_title, numbered=True)
    return signed(values, (Axis(tokens, y_title, stream), columns), title, n=2, least=(0, 18))


def routes(
    weights: f.Floats,
    tokens: Sequence[str],
    names: Sequence[str],
    *,
    title: str,
    x_title: str,
    y_title: str,
) -> Matrix:
    """The router's weights [pos, expert], 0 to 1, and the names of the experts."""
    scale = Scale("attention", 0, 1, title, ((0, "0 %"), (0.5, "50 %"), (1, "100 %")))
    axes = Axis(tokens, y_title, "tgt"), Axis(names, x_title)
    return Matrix(axes, weights, scale, least=(0, 18))
