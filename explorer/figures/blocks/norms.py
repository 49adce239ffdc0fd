"""Statistics of norms, one per token or feature, and output size against input size."""

from collections.abc import Sequence

import numpy as np

from explorer.figures import frame as f
from explorer.figures.curves import lines
from explorer.figures.theme import clipped, escape, palette, show
from explorer.numbers import minus

ROW = 34
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
    frame = f.layout(colours, 16 + ROW * len(values), meta={"least": least})
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
