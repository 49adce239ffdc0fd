"""All heads of one kind at one step, as small matrices: rows are layers, columns are heads."""

from collections.abc import Sequence

import numpy as np

from explorer.figures import frame as f
from explorer.figures.theme import escape, is_special, palette, show

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
