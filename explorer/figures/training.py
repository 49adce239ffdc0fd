"""A training run: curves over the steps, and one step in detail: its heads and losses."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from explorer.figures import frame as f
from explorer.figures.curves import DASHES
from explorer.figures.theme import escape, is_special, palette, show


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
) -> f.Figure:
    """Curves from step 0 to step `last`; `marks` are vertical lines, each with a label.

    `level` is a horizontal line with its name. NaN is left out.
    """
    colours = palette(dark)
    traces: list[f.Figure] = []
    for at, curve in enumerate(curves):
        like = at if curve.like is None else curve.like
        colour = colours.curves[like % len(colours.curves)]
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
                "lines+markers" if few and not curve.faint else "lines",
                marker={"size": 5},
                cliponaxis=False,  # the first step is on the edge
                name=name,
                opacity=0.3 if curve.faint else 1,
                showlegend=not curve.faint,
                line={"color": colour, "dash": DASHES[like % len(DASHES)], "width": 2},
                hovertemplate=f"{name}: <b>%{{y:{'.1%' if percent else '.4~g'}}}</b>"
                "<extra></extra>",
            )
        )
    frame = f.layout(
        colours, height, legend=sum(not curve.faint for curve in curves) > 1, hovermode="x unified"
    )
    frame["xaxis"] = f.number_axis(colours, x_title, showgrid=False, range=[0, max(1, last)])
    across = {"tickformat": ".0%", "range": [0, 1.03]} if percent else {"rangemode": "tozero"}
    if log_y:
        across = {"type": "log", "dtick": "D2"}
    frame["yaxis"] = f.number_axis(colours, y_title, **across)
    lines = [(step, word, colours.accent) for step, word in marks]
    frame["shapes"] = [f.line(each, (x, x), (0, 1), yref="paper") for x, _, each in lines]
    frame["annotations"], free = [], -1.0
    for step, word, colour in lines:
        if step > free:  # skip a label that would overlap the one before
            frame["annotations"].append(_word(step, word, colour))
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


GAP = 1.5
"""Blank cells between two matrices."""
MOST_LABELLED = 4
"""Largest number of heads per layer with token labels."""
SHORT = 2
"""Characters of the longest label that fits above one column."""


def small_heads(
    layers: Sequence[f.Floats],
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    dark: bool = False,
    words: f.Words,
) -> f.Figure:
    """Patterns [head, query, key] of each layer, in one figure; rows are queries, columns are keys.

    `words`: layer, head, query, key, weight.
    """
    colours = palette(dark)
    n_query, n_key = len(query_tokens), len(key_tokens)
    traces, notes = [], []
    ticks_x: dict[float, str] = {}
    ticks_y: dict[float, str] = {}
    for layer, heads in enumerate(layers):
        for head, pattern in enumerate(heads):
            x0, y0 = head * (n_key + GAP), layer * (n_query + 2 * GAP)
            x, y = x0 + np.arange(n_key), y0 + np.arange(n_query)
            said = [
                [f"{escape(show(query))} → {escape(show(key))}" for key in key_tokens]
                for query in query_tokens
            ]
            traces.append(
                f.heatmap(
                    pattern,
                    colours.attention,
                    (0, 1),
                    x=x,
                    y=y,
                    text=said,
                    showscale=False,
                    hovertemplate=f"{escape(words['layer'])} {layer + 1}, "
                    f"{escape(words['head'])} {head + 1}<br>%{{text}}: <b>%{{z:.3f}}</b>"
                    "<extra></extra>",
                )
            )
            notes.append(
                f.note(
                    f"{layer + 1}.{head + 1}",
                    x0 - 0.5,
                    y0 - 0.6,
                    colours.muted,
                    11,
                    xanchor="left",
                    yanchor="bottom",
                )
            )
            ticks_x |= dict(zip(x.tolist(), map(_label, key_tokens), strict=True))
            ticks_y |= dict(zip(y.tolist(), map(_label, query_tokens), strict=True))
    n_heads = max(map(len, layers), default=0)
    words_only = [each for each in (*query_tokens, *key_tokens) if not is_special(each)]
    short = max(map(len, words_only), default=0) <= SHORT
    labelled = n_heads <= MOST_LABELLED and short
    margin = {"l": 8, "r": 8, "t": 26, "b": 8}
    frame = f.layout(colours, 420, annotations=notes, margin=margin)
    for name, ticks, title in (("xaxis", ticks_x, "key"), ("yaxis", ticks_y, "query")):
        frame[name] = f.axis(
            colours,
            words[title],
            tickmode="array",
            tickvals=list(ticks) if labelled else [],
            ticktext=[escape(each) for each in ticks.values()] if labelled else [],
            tickangle=0,
        )
        frame[name]["tickfont"] = {"size": 10, "color": colours.muted}
    frame["yaxis"]["autorange"] = "reversed"
    return {"data": traces, "layout": frame}


def _label(token: str) -> str:
    """A token label of a row or column; special tokens become a dot."""
    return "·" if is_special(token) else show(token)


def token_losses(
    labels: Sequence[Sequence[str]],
    losses: Sequence[Sequence[float]],
    *,
    title: str,
    x_title: str,
    dark: bool = False,
) -> f.Figure:
    """One cell per label, darker for a higher loss in nats; sequences may differ in length.

    Raises ValueError if labels and losses differ in length.
    """
    if list(map(len, labels)) != list(map(len, losses)):
        raise ValueError("labels and losses have different lengths")
    colours = palette(dark)
    width = max(map(len, labels), default=0)
    values = np.full((len(labels), width), np.nan, np.float32)
    for at, row in enumerate(losses):
        values[at, : len(row)] = row
    text = [[escape(show(each)) for each in row] + [""] * (width - len(row)) for row in labels]
    top = float(np.nanmax(values)) if np.isfinite(values).any() else 1.0
    trace = f.heatmap(
        values,
        colours.attention,
        (0, top),
        gap=2,
        text=text,
        texttemplate="%{text}",
        colorbar=f.colorbar(colours, title),
        hovertemplate="%{text}: <b>%{z:.3f}</b><extra></extra>",
    )
    margin = {"l": 8, "r": 8, "t": 8, "b": f.BAR_ROOM + 30}
    frame = f.layout(colours, 90 + f.BAR_ROOM + 30 * len(labels), margin=margin)
    frame["xaxis"] = f.axis(colours, x_title, tickmode="linear", dtick=1)
    frame["yaxis"] = f.axis(colours, "", autorange="reversed", showticklabels=False)
    return {"data": [trace], "layout": frame}
