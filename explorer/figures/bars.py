"""Bars: the candidates of a decoding step, and one row of attention."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from explorer.figures.frame import (
    Bools,
    Figure,
    Floats,
    Words,
    check_shape,
    choose_words,
    layout,
    number_axis,
    percent,
    token_axis,
    token_labels,
    upright,
)
from explorer.figures.theme import Palette, Stream, escape, palette

ROOM = 420
"""Pixels that a row's bars take side by side, about: the browser alone knows."""

WORDS = {
    "probability": "probability",
    "chosen": "chosen",
    "cut": "cut off",
    "weight": "weight",
    "mean": "mean of the heads",
    "blocked": "blocked",
}
"""Every word these figures can show, in English; pass the same keys to translate them."""


def candidates(
    labels: Sequence[str],
    probabilities: Floats,
    *,
    kept: Bools | None = None,
    chosen: int | None = None,
    dark: bool = False,
    words: Words | None = None,
) -> Figure:
    """Next-token candidates, most probable on top; the caller's order does not matter.

    `kept` [candidate] False = cut off by top-k or top-p: grey and hatched. `chosen` is an index
    into `labels`: its bar is amber, the target stream's colour, and carries a tick.

    Raises ValueError naming the sizes when they disagree, or a chosen index out of range.
    """
    said = choose_words(WORDS, words)
    n = len(labels)
    check_shape("probabilities", probabilities, (n,))
    keep = np.ones(n, bool) if kept is None else kept
    check_shape("kept", keep, (n,))
    if chosen is not None and not 0 <= chosen < n:
        raise ValueError(f"chosen is {chosen}, but there are {n} candidates")
    colours = palette(dark)
    order = np.argsort(-np.asarray(probabilities), kind="stable")
    names = token_labels([labels[index] for index in order], dark)
    shown = np.asarray(probabilities, np.float32)[order]
    keep = keep[order]
    is_chosen = order == (-1 if chosen is None else chosen)
    note = np.where(is_chosen, f" ✓ {said['chosen']}", np.where(keep, "", f" · {said['cut']}"))
    text = percent(shown) + np.array([escape(str(each)) for each in note], object)
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": shown * 100,
        "y": names,
        "text": text,
        "textposition": "outside",
        "cliponaxis": False,
        "marker": {
            "color": np.where(
                is_chosen, colours.target, np.where(keep, colours.attention[2], colours.hatch)
            ),
            "pattern": _hatched(np.where(keep, "", "/"), colours),
        },
        "hovertemplate": "<b>%{y}</b><br>%{text}<extra></extra>",
    }
    frame = layout(colours, 64 + 26 * n, bargap=0.25)
    frame["xaxis"] = number_axis(
        colours,
        said["probability"],
        ticksuffix=" %",
        # Room on the right for the text that stands outside the longest bar.
        range=[0, max(float(shown.max(initial=0.0)), 0.01) * 150],
        nticks=5,
    )
    frame["yaxis"] = token_axis(names, "", None, dark, autorange="reversed")
    return {"data": [trace], "layout": frame}


def row(
    tokens: Sequence[str],
    weights: Floats,
    *,
    stream: Stream | None = None,
    allowed: Bools | None = None,
    head_names: Sequence[str] = (),
    title: str = "key",
    dark: bool = False,
    words: Words | None = None,
) -> Figure:
    """One query's row over the key tokens: weights [key], or [head, key] with `head_names`.

    With heads the bar is their mean and each head a dot, so that agreement and outliers show.
    `allowed` [key] False marks blocked keys, hatched up to the full height of the plot.

    Raises ValueError naming the sizes when they disagree.
    """
    said = choose_words(WORDS, words)
    n = len(tokens)
    by_head = np.atleast_2d(np.asarray(weights, np.float32)) * 100
    check_shape("weights", by_head, (max(len(head_names), 1), n))
    open_keys = np.ones(n, bool) if allowed is None else allowed
    check_shape("allowed", open_keys, (n,))
    colours = palette(dark)
    names = token_labels(tokens, dark)
    mean = by_head.mean(axis=0)
    top = max(float(by_head.max(initial=0.0)), 1.0) * 1.1
    bar = {
        "type": "bar",
        "x": names,
        "y": np.where(open_keys, mean, top).astype(np.float32),
        "text": np.where(open_keys, percent(mean / 100), escape(said["blocked"])),
        "textposition": "none",
        "marker": {
            "color": np.where(open_keys, colours.attention[2], colours.hatch),
            "pattern": _hatched(np.where(open_keys, "", "/"), colours),
        },
        "hovertemplate": "<b>%{x}</b><br>%{text}"
        + (f" · {escape(said['mean'])}" if head_names else "")
        + "<extra></extra>",
    }
    traces = [bar]
    if head_names:
        seen = np.flatnonzero(open_keys)
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": np.tile(np.array(names, object)[seen], len(head_names)),
                "y": by_head[:, seen].ravel(),
                "text": np.repeat([escape(name) for name in head_names], len(seen)),
                "marker": {"color": colours.accent, "size": 5, "opacity": 0.7},
                "hovertemplate": "%{text} → <b>%{x}</b> %{y:.1f} %<extra></extra>",
            }
        )
    frame = layout(colours, 260, bargap=0.2)
    labels = upright(tokens, dark, ROOM, below=True)
    frame["xaxis"] = token_axis(names, title, stream, dark, **labels)
    frame["yaxis"] = number_axis(colours, said["weight"], ticksuffix=" %", range=[0, top], nticks=5)
    return {"data": traces, "layout": frame}


def _hatched(shape: NDArray[np.str_], colours: Palette) -> Figure:
    """Plotly's bar pattern in the hatching of blocked cells.

    Where every bar has its own colour, that colour also draws the lines of its pattern, so the
    hatched bars' own colour is `hatch` and only the ground is named here.
    """
    return {"shape": shape, "bgcolor": colours.blocked, "size": 6, "solidity": 0.2}
