"""Inside a block: the residual stream, norms, and the units of the feed-forward network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from explorer.figures import frame as f
from explorer.figures.curves import DASHES, lines
from explorer.figures.matrix import Axis, Matrix, Scale, signed
from explorer.figures.theme import Stream, escape, palette, show
from explorer.numbers import digits, minus

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
            (0.0, base - 0.45, shown.before, "left"),
            (JOIN + 0.15, base + 0.75, shown.added, "left"),
            (WIDTH, base - 0.45, shown.behind, "right"),
        ):
            notes.append(f.note(text, x, y, colours.ink, xanchor=anchor))
        notes.append(f.note(shown.back, 0.0, base - 0.85, colours.muted, xanchor="left"))
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


def by_block(
    values: Mapping[str, f.Floats],
    names: Sequence[str],
    *,
    x_title: str,
    y_title: str,
    log: bool = False,
    height: int = 320,
    dark: bool = False,
) -> f.Figure:
    """One curve per placement over the blocks, values [seed, place]: the mean and every seed.

    Each seed is a thin line behind its mean. Raises ValueError with the sizes if they disagree.
    """
    f.check_shape("names", np.array(names, object), (len(values),))
    colours = palette(dark)
    traces = []
    for at, (name, of_seeds) in enumerate(zip(names, values.values(), strict=True)):
        seeds = np.atleast_2d(of_seeds)
        x = np.arange(seeds.shape[1])
        colour = colours.curves[at % len(colours.curves)]
        if len(seeds) > 1:
            gap = np.full((len(seeds), 1), np.nan)
            traces.append(
                f.scatter(
                    np.tile(np.append(x, x[-1]), len(seeds)),
                    np.concatenate([seeds, gap], 1).ravel().astype(np.float32),
                    line={"color": colour, "width": 1},
                    opacity=0.35,
                    hoverinfo="skip",
                    showlegend=False,
                )
            )
        middle = np.exp(np.log(np.maximum(seeds, 1e-12)).mean(0)) if log else seeds.mean(0)
        traces.append(
            f.scatter(
                x,
                middle.astype(np.float32),
                name=escape(name),
                line={"color": colour, "width": 2.5, "dash": DASHES[at % len(DASHES)]},
                hovertemplate=f"{escape(name)}: <b>%{{y:.3~g}}</b><extra></extra>",
            )
        )
    frame = f.layout(colours, height, legend=True, hovermode="x unified")
    frame["xaxis"] = f.number_axis(colours, x_title, showgrid=False)
    scale = {"type": "log", "dtick": 1, "exponentformat": "power"} if log else {}
    frame["yaxis"] = f.number_axis(colours, y_title, **(scale or {"rangemode": "tozero"}))
    return {"data": traces, "layout": frame}


def _line(x0: float, y0: float, x1: float, y1: float, line: Mapping[str, Any]) -> dict[str, Any]:
    ends = {"x0": x0, "y0": y0, "x1": x1, "y1": y1}
    return {"type": "line", **ends, "line": line, "layer": "below"}


def _box(x: float, y: float, line: str, fill: str) -> dict[str, Any]:
    corners = {"x0": x - 0.65, "x1": x + 0.65, "y0": y - 0.32, "y1": y + 0.32}
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


def eps_curves(
    scales: f.Floats,
    sizes: f.Floats,
    names: Sequence[str],
    *,
    x_title: str,
    y_title: str,
    dark: bool = False,
) -> f.Figure:
    """The output size of a norm [curve, scale] against the size of its input, on a log axis."""
    figure = lines(
        np.log10(scales), sizes, names, x_title=x_title, y_title=y_title, height=300, dark=dark
    )
    powers = np.arange(np.ceil(np.log10(scales[0])), np.floor(np.log10(scales[-1])) + 1)
    figure["layout"]["xaxis"] |= {
        "tickvals": powers,
        "ticktext": [minus(f"10<sup>{int(power)}</sup>") for power in powers],
        "hoverformat": ".2f",
    }
    return figure


def gradients(
    answers: f.Floats, names: Sequence[str], *, x_title: str, y_title: str, dark: bool = False
) -> f.Figure:
    """A gradient's components [answer, feature], the answers for one feature side by side."""
    f.check_shape("names", np.array(names, object), answers.shape[:1])
    colours = palette(dark)
    fills = (colours.curves[5], colours.accent, colours.curves[1])
    traces = [
        f.bar(
            np.arange(answers.shape[1]) + 1,
            np.asarray(row, np.float64),
            name=escape(name),
            marker={
                "color": fills[at],
                "pattern": {"shape": ("/", "", "x")[at], "bgcolor": colours.paper, "size": 6},
            },
            hovertemplate=f"{escape(name)} <b>%{{y:.4f}}</b><extra></extra>",
        )
        for at, (name, row) in enumerate(zip(names, answers, strict=True))
    ]
    frame = f.layout(colours, 300, legend=True, barmode="group", bargap=0.3)
    frame["xaxis"] = f.number_axis(colours, x_title, showgrid=False, dtick=1)
    frame["yaxis"] = f.number_axis(colours, y_title, zeroline=True, zerolinecolor=colours.line)
    return {"data": traces, "layout": frame}


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
