"""A training run: curves over the steps, and one step in detail: its heads and losses."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from explorer.figures import frame as f
from explorer.figures.curves import DASHES
from explorer.figures.matrix import Axis, Matrix, Scale
from explorer.figures.theme import escape, palette, show
from explorer.numbers import digits, percents


@dataclass(frozen=True)
class Curve:
    """Values over steps; `low` and `high` bound a band."""

    name: str
    x: ArrayLike
    y: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None


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
) -> f.Figure:
    """Curves from step 0 to step `last`; `marks` are vertical lines, each with a label.

    `level` is a horizontal line with its name. NaN is left out.
    """
    colours = palette(dark)
    traces: list[f.Figure] = []
    for at, curve in enumerate(curves):
        colour = colours.curves[at % len(colours.curves)]
        name = escape(curve.name)
        if curve.low is not None and curve.high is not None:
            x = np.asarray(curve.x)
            traces.append(
                f.scatter(
                    np.concatenate([x, x[::-1]]),
                    np.concatenate([np.asarray(curve.low), np.asarray(curve.high)[::-1]]),
                    fill="toself",
                    fillcolor=colour,
                    opacity=0.18,
                    line={"width": 0},
                    hoverinfo="skip",
                    showlegend=False,
                )
            )
        few = len(np.asarray(curve.x)) < 60
        traces.append(
            f.scatter(
                np.asarray(curve.x),
                np.asarray(curve.y, np.float32),
                "lines+markers" if few else "lines",
                marker={"size": 5},
                cliponaxis=False,  # the first step is on the edge
                name=name,
                line={"color": colour, "dash": DASHES[at % len(DASHES)], "width": 2},
                hovertemplate=f"{name}: <b>%{{y:{'.1%' if percent else '.4~g'}}}</b>"
                "<extra></extra>",
            )
        )
    frame = f.layout(colours, height, legend=len(curves) > 1, hovermode="x unified")
    frame["xaxis"] = f.number_axis(colours, x_title, showgrid=False, range=[0, max(1, last)])
    across = {"tickformat": ".0%", "range": [0, 1.03]} if percent else {"rangemode": "tozero"}
    if log_y:
        every = [np.asarray(curve.y, float) for curve in curves]
        across = f.log_axis(np.concatenate([np.zeros(0), *every]))
    frame["yaxis"] = f.number_axis(colours, y_title, **across)
    frame["shapes"] = [f.line(colours.accent, (x, x), (0, 1), yref="paper") for x, _ in marks]
    frame["annotations"], free = [], -1.0
    for step, word in marks:
        if step > free:  # skip a label that would overlap the one before
            frame["annotations"].append(_word(step, word, colours.accent))
            free = step + APART * last
    if level is not None and not log_y:
        frame["shapes"].append(f.line(colours.muted, (0, 1), (level[0],) * 2, xref="paper"))
        frame["annotations"].append(
            f.note(
                escape(level[1]),
                1,
                level[0],
                colours.muted,
                11,
                xref="paper",
                xanchor="right",
                yanchor="bottom",
            )
        )
    return {"data": traces, "layout": frame}


def _word(step: int, word: str, colour: str) -> f.Figure:
    return f.note(escape(word), step, 1, colour, 11, yref="paper", xanchor="left", yanchor="top")


def small_heads(
    layers: Sequence[f.Floats],
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    words: f.Words,
) -> Matrix:
    """Patterns [head, query, key] of each layer in one matrix, with a blank row and column between
    two of them; rows are queries, columns are keys.

    `words`: layer, head, query, key.
    """
    n_query, n_key = len(query_tokens), len(key_tokens)
    n_heads = max(map(len, layers), default=0)
    shape = len(layers), n_query + 1, n_heads, n_key + 1
    values = np.full(shape, np.nan)
    texts, written = np.full(shape, "", object), np.full(shape, "", object)
    for layer, heads in enumerate(layers):
        for head, pattern in enumerate(heads):
            values[layer, 1:, head, :-1] = pattern
            place = f"{words['layer']} {layer + 1}, {words['head']} {head + 1} · "
            texts[layer, 1:, head, :-1] = place + percents(pattern)
            written[layer, 0, head, 0] = f"L{layer + 1}·H{head + 1}"
    rows = [None, *query_tokens] * len(layers)
    columns = [*key_tokens, None] * n_heads
    flat = len(rows), len(columns)
    return Matrix(
        (Axis(rows, words["query"]), Axis(columns, words["key"])),
        values.reshape(flat),
        Scale("attention", 0, 1),
        texts=texts.reshape(flat),
        written=written.reshape(flat),
    )


def token_losses(
    labels: Sequence[Sequence[str]], losses: Sequence[Sequence[float]], *, title: str, x_title: str
) -> Matrix:
    """One cell per label, darker for a higher loss in nats; sequences may differ in length.

    Raises ValueError if labels and losses differ in length.
    """
    if list(map(len, labels)) != list(map(len, losses)):
        raise ValueError("labels and losses have different lengths")
    width = max(map(len, labels), default=0)
    values = np.full((len(labels), width), np.nan, np.float32)
    written, texts = np.full((2, *values.shape), "", object)
    for at, (row, numbers) in enumerate(zip(labels, losses, strict=True)):
        values[at, : len(row)], written[at, : len(row)] = numbers, [*map(show, row)]
        texts[at, : len(row)] = [
            f"{show(label)}: {digits(loss)}" for label, loss in zip(row, numbers, strict=True)
        ]
    top = float(np.nanmax(values)) if np.isfinite(values).any() else 1.0
    scale = Scale("attention", 0, top, title, ((0, "0"), (top, digits(top))))
    axes = Axis([None] * len(labels)), Axis.numbers(width, x_title)
    return Matrix(axes, values, scale, texts=texts, written=written, least=(44, 26))
