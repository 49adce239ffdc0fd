"""One mask as a matrix: open cells are paper, and each rule that blocks has its own hatching."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from explorer.components.mount import Place, show
from explorer.components.payload import (
    Bools,
    Words,
    check_length,
    choose_words,
    pack,
    tokens_head,
)
from explorer.figures.theme import Stream

WORDS = {
    "label": "mask",
    "query": "query",
    "key": "key",
    "open": "may attend",
    "blocked": "blocked",
    "hint": "Point at a cell to see what decides it; click to choose it.",
}
"""Every word the view can show, in English; pass the same keys to translate them."""

MAX_RULES = 6
"""As many as there are patterns that can be told apart without colour."""


def mask_matrix(
    mask: Bools,
    blocked_by: NDArray[np.integer],
    *,
    rules: Sequence[str],
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    key: str,
    query_title: str = "query",
    key_title: str = "key",
    query_stream: Stream | None = None,
    key_stream: Stream | None = None,
    selected: tuple[int, int] | None = None,
    words: Words | None = None,
) -> tuple[int, int] | None:
    """Show `mask` [query, key], True = may attend; return the (query, key) just clicked, or None.

    `blocked_by` [query, key]: 0 where open, else the 1-based number of the rule in `rules`
    (words the reader sees; at most six, those that block nothing stay out of the legend). Streams
    are "src" or "tgt" and colour the axis titles. Raises ValueError naming sizes that disagree,
    or a cell whose rule contradicts the mask.
    """

    def pack_with(place: Place | None) -> bytes:
        return pack_mask_matrix(
            mask,
            blocked_by,
            rules=rules,
            query_tokens=query_tokens,
            key_tokens=key_tokens,
            query_title=query_title,
            key_title=key_title,
            query_stream=query_stream,
            key_stream=key_stream,
            selected=None if place is None else (place[0], place[1]),
            words=words,
        )

    picked = show("mask_matrix", key, mask.shape, selected, pack_with)
    return None if picked is None else (picked[0], picked[1])


def pack_mask_matrix(
    mask: Bools,
    blocked_by: NDArray[np.integer],
    *,
    rules: Sequence[str],
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    query_title: str = "query",
    key_title: str = "key",
    query_stream: Stream | None = None,
    key_stream: Stream | None = None,
    selected: tuple[int, int] | None = None,
    words: Words | None = None,
) -> bytes:
    """The payload of `mask_matrix`: one byte a cell, the number of its rule."""
    if mask.ndim != 2 or mask.dtype != np.bool_:
        raise ValueError(f"mask is {mask.dtype} {mask.shape}, expected bool [query, key]")
    if blocked_by.shape != mask.shape:
        raise ValueError(f"blocked_by has shape {blocked_by.shape}, mask has {mask.shape}")
    n_query, n_key = mask.shape
    check_length("query_tokens", len(query_tokens), n_query, "queries in mask")
    check_length("key_tokens", len(key_tokens), n_key, "keys in mask")
    if len(rules) > MAX_RULES:
        raise ValueError(f"{len(rules)} rules, at most {MAX_RULES} can be told apart")
    if blocked_by.size and not 0 <= blocked_by.min() <= blocked_by.max() <= len(rules):
        low, high = int(blocked_by.min()), int(blocked_by.max())
        raise ValueError(f"blocked_by runs from {low} to {high}, but there are {len(rules)} rules")
    wrong = np.argwhere((blocked_by == 0) != mask)
    if len(wrong):
        query, at = (int(place) for place in wrong[0])
        raise ValueError(
            f"{len(wrong)} cells contradict the mask, the first is query {query}, key {at}: "
            f"mask {bool(mask[query, at])}, blocked_by {int(blocked_by[query, at])}"
        )
    if selected is not None and not (0 <= selected[0] < n_query and 0 <= selected[1] < n_key):
        raise ValueError(f"selected is {selected}, but the mask is {n_query} x {n_key}")
    head = {
        "queries": {**tokens_head(query_tokens), "title": query_title, "stream": query_stream},
        "keys": {**tokens_head(key_tokens), "title": key_title, "stream": key_stream},
        "rules": list(rules),
        "selected": None if selected is None else list(selected),
        "words": choose_words(WORDS, words),
    }
    return pack(head, cells=blocked_by.astype(np.uint8))
