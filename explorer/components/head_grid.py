"""All heads of one kind of attention at once: layers down, heads across, one thumbnail each."""

from collections.abc import Sequence

import numpy as np

from explorer.components.mount import Place, show
from explorer.components.payload import (
    Bools,
    Bytes,
    Floats,
    Words,
    check_length,
    choose_words,
    encode_weights,
    pack,
    tokens_head,
)

WORDS = {
    "label": "attention heads",
    "query": "query",
    "key": "key",
    "blocked": "blocked",
    "hint": "Point at a head to read its weights; click to open it.",
}
"""Every word the view can show, in English; pass the same keys to translate them."""

MAX_SIDE = 64
"""Cells a side of a thumbnail; more would be finer than the screen that draws them."""


def head_grid(
    patterns: Floats,
    *,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    key: str,
    labels: Sequence[str] | None = None,
    mask: Bools | None = None,
    selected: tuple[int, int] | None = None,
    top: float = 1.0,
    words: Words | None = None,
) -> tuple[int, int] | None:
    """Show `patterns` [layer, head, query, key]; return the (layer, head) just clicked, or None.

    `labels` name the thumbnails row by row ("L1·H1" … when None); `mask` True = may attend is
    broadcastable to `patterns`; `selected` is outlined; a weight of `top` or more is darkest.
    Both numbers of an address count from 0. Raises ValueError naming the sizes that disagree.
    """

    def pack_with(place: Place | None) -> bytes:
        return pack_head_grid(
            patterns,
            query_tokens=query_tokens,
            key_tokens=key_tokens,
            labels=labels,
            mask=mask,
            selected=None if place is None else (place[0], place[1]),
            top=top,
            words=words,
        )

    picked = show("head_grid", key, patterns.shape[:2], selected, pack_with)
    return None if picked is None else (picked[0], picked[1])


def pack_head_grid(
    patterns: Floats,
    *,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    labels: Sequence[str] | None = None,
    mask: Bools | None = None,
    selected: tuple[int, int] | None = None,
    top: float = 1.0,
    words: Words | None = None,
) -> bytes:
    """The payload of `head_grid`; patterns longer than `MAX_SIDE` are pooled to their maxima."""
    if patterns.ndim != 4:
        raise ValueError(f"patterns has shape {patterns.shape}, expected [layer, head, query, key]")
    n_layers, n_heads, n_query, n_key = patterns.shape
    check_length("query_tokens", len(query_tokens), n_query, "queries in patterns")
    check_length("key_tokens", len(key_tokens), n_key, "keys in patterns")
    if labels is None:
        labels = [
            f"L{layer + 1}·H{head + 1}" for layer in range(n_layers) for head in range(n_heads)
        ]
    check_length("labels", len(labels), n_layers * n_heads, "heads in patterns")
    if selected is not None and not (0 <= selected[0] < n_layers and 0 <= selected[1] < n_heads):
        raise ValueError(f"selected is {selected}, but there are {n_layers} x {n_heads} heads")
    codes = encode_weights(patterns, mask).reshape(-1, n_query, n_key)
    step = -(-max(n_query, n_key) // MAX_SIDE)
    head = {
        "queries": tokens_head(query_tokens),
        "keys": tokens_head(key_tokens),
        "labels": list(labels),
        "columns": n_heads,
        "step": step,
        "top": top,
        "selected": None if selected is None else selected[0] * n_heads + selected[1],
        "words": choose_words(WORDS, words),
    }
    return pack(head, cells=pool(codes, step))


def pool(codes: Bytes, step: int) -> Bytes:
    """Each step x step square of [head, query, key] as its largest weight; 255 if all blocked.

    The maximum keeps a thin diagonal visible where a mean would wash it out.
    """
    if step == 1:
        return codes
    n, n_query, n_key = codes.shape
    rows, columns = -(-n_query // step), -(-n_key // step)
    # Blocked becomes 0 and weights move up by one, so that the maximum prefers any open cell.
    open_first = np.zeros((n, rows * step, columns * step), np.uint8)
    open_first[:, :n_query, :n_key] = codes + np.uint8(1)  # 255 wraps round to 0
    by_rows = np.maximum.reduce([open_first[:, start::step] for start in range(step)])
    pooled = np.maximum.reduce([by_rows[:, :, start::step] for start in range(step)])
    return pooled - np.uint8(1)
