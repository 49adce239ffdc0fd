"""Inside a block: the residual stream, norms, and the units of the feed-forward network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from explorer.figures import frame as f
from explorer.figures.curves import DASHES, lines
from explorer.figures.theme import Stream, clipped, colorscale, escape, palette, show
from explorer.numbers import minus

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


NORM_ROW = 34
"""Height of a sentence in pixels."""
CHARACTERS = 60
"""Approximate number of characters that fit side by side; hover shows the whole token."""
CHARACTER, NAMES = 7, 100
"""Width in pixels of a character, and of the sentence names next to the cells."""


def _longest(n_tokens: int) -> int:
    """How many characters a label has room for."""
    return max(4, CHARACTERS // max(1, n_tokens))


def by_token(
    values: f.Floats,
    valid: f.Bools,
    tokens: Sequence[Sequence[str]],
    names: Sequence[str],
    *,
    title: str,
    top: float,
    dark: bool = False,
) -> f.Figure:
    """One number per token, [sentence, pos], with the token in the cell; padding is dimmed.

    Colours run from 0 to `top`, or from -`top` to `top` if a value is negative.
    Raises ValueError with the sizes if they disagree.
    """
    f.check_shape("valid", valid, values.shape)
    f.check_shape("names", np.array(names, object), values.shape[:1])
    colours = palette(dark)
    signed = bool((values < 0).any())
    trace = f.heatmap(
        values,
        colours.diverging if signed else colours.attention,
        (-top if signed else 0.0, top),
        gap=2,
        y=[escape(name) for name in names],
        text=[[escape(show(token)) for token in row] for row in tokens],
        showscale=False,
        hovertemplate=f"<b>%{{text}}</b><br>{escape(title)} <b>%{{z:.3f}}</b><extra></extra>",
    )
    longest = _longest(values.shape[1])
    least = NAMES + values.shape[1] * (CHARACTER * longest + 10)
    frame = f.layout(colours, 16 + NORM_ROW * len(values), meta={"least": least})
    frame["xaxis"] = f.axis(colours, showticklabels=False)
    frame["yaxis"] = f.axis(colours, autorange="reversed", type="category")
    dark_cell = np.abs(values) > 0.6 * top
    frame["annotations"] = [
        f.note(
            escape(clipped(show(token), longest)),
            place,
            escape(names[at]),
            colours.paper if dark_cell[at, place] else colours.ink,
            12,
            opacity=1.0 if valid[at, place] else 0.6,
        )
        for at, row in enumerate(tokens)
        for place, token in enumerate(row)
    ]
    return {"data": [trace], "layout": frame}


def by_feature(
    values: f.Floats, *, title: str, x_title: str, top: float, dark: bool = False
) -> f.Figure:
    """One number per feature, [d_model], as one row of thin cells."""
    colours = palette(dark)
    signed = bool((values < 0).any())
    trace = f.heatmap(
        np.asarray(values, np.float32)[None],
        colours.diverging if signed else colours.attention,
        (-top if signed else 0.0, top),
        showscale=False,
        hovertemplate=f"{escape(x_title)} <b>%{{x}}</b><br>"
        f"{escape(title)} <b>%{{z:.3f}}</b><extra></extra>",
    )
    frame = f.layout(colours, 88)
    frame["xaxis"] = f.number_axis(colours, x_title, showgrid=False)
    frame["yaxis"] = f.axis(colours, showticklabels=False)
    return {"data": [trace], "layout": frame}


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
    numbers: Sequence[object] | NDArray[np.integer],
    tokens: Sequence[str],
    *,
    title: str,
    x_title: str,
    y_title: str,
    stream: Stream,
    dark: bool = False,
) -> f.Figure:
    """Selected units [pos, unit] on a diverging scale; `numbers` are their indices in the network.

    Raises ValueError with the sizes if they disagree.
    """
    f.check_shape("values", values, (len(tokens), len(numbers)))
    colours = palette(dark)
    limit = max(1e-6, float(np.abs(values).max(initial=0.0)))
    labels = f.token_labels(tokens, dark)
    trace = f.heatmap(
        values,
        colours.diverging,
        (-limit, limit),
        x=[str(number) for number in numbers],
        y=labels,
        hovertemplate=f"<b>%{{y}}</b><br>{escape(x_title)} <b>%{{x}}</b><br>"
        f"{escape(title)} <b>%{{z:.3f}}</b><extra></extra>",
        colorbar=f.colorbar(colours, title, tickvals=[-limit, 0, limit], ticktext=f.ends(limit, 2)),
    )
    frame = f.layout(colours, 60 + f.BAR_ROOM + max(90, 20 * len(tokens)), below=f.BAR_ROOM)
    frame["xaxis"] = f.axis(
        colours, x_title, type="category", side="top", showticklabels=False, nticks=12
    )
    frame["yaxis"] = f.token_axis(labels, y_title, stream, dark, autorange="reversed")
    return {"data": [trace], "layout": frame}


def routes(
    weights: f.Floats,
    tokens: Sequence[str],
    names: Sequence[str],
    *,
    title: str,
    x_title: str,
    y_title: str,
    dark: bool = False,
) -> f.Figure:
    """The router's weights [pos, expert], 0 to 1, and the names of the experts."""
    titles = {"title": title, "x_title": x_title, "y_title": y_title}
    figure = units(weights, names, tokens, **titles, stream="tgt", dark=dark)
    bar = f.colorbar(palette(dark), title, tickvals=[0, 0.5, 1], ticktext=["0 %", "50 %", "100 %"])
    scale = colorscale(palette(dark).attention)
    figure["data"][0] |= {"zmin": 0, "zmax": 1, "colorscale": scale, "colorbar": bar}
    figure["layout"]["xaxis"] |= {"showticklabels": True, "nticks": len(names)}
    return figure
