"""One mask as a matrix: open cells are white, and each rule that blocks has its own hatching."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.components.mount import Index, index_of
from explorer.components.payload import Bools, Words, check_length, pack, tokens_head
from explorer.figures.theme import Stream

MAX_RULES = 6
"""The number of hatchings that can be told apart without colour."""


@dataclass(frozen=True)
class Stroke:
    """The cells (query, key) painted in one drag, all to be opened or all to be blocked."""

    cells: tuple[tuple[int, int], ...]
    open: bool


def stroke_of(painted: Any, shape: Index) -> Stroke | None:
    """Validate a stroke sent by the browser for a matrix of `shape`; None if missing or stale.

    Cells outside are dropped: a stroke can arrive late, when the data is already smaller.
    """
    flat = painted.get("cells") if isinstance(painted, Mapping) else None
    if not isinstance(flat, list | tuple):
        return None
    flat = flat[: 2 * shape[0] * shape[1]]  # a message may have more
    cells = [index_of(pair, shape) for pair in zip(flat[::2], flat[1::2], strict=False)]
    inside = tuple((cell[0], cell[1]) for cell in cells if cell is not None)
    return Stroke(inside, bool(painted.get("open"))) if inside else None


def pack_mask_matrix(
    mask: Bools,
    blocked_by: NDArray[np.integer],
    *,
    title: str,
    rules: Sequence[str],
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    query_title: str,
    key_title: str,
    query_stream: Stream | None = None,
    key_stream: Stream | None = None,
    selected: tuple[int, int] | None = None,
    brush: bool = False,
    file: str = "headlight-mask",
    words: Words,
) -> bytes:
    """Pack the payload: one byte per cell, the number of its rule.

    `file` is the name, without extension, of the saved picture.
    """
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
        "title": title,
        "queries": {**tokens_head(query_tokens), "title": query_title, "stream": query_stream},
        "keys": {**tokens_head(key_tokens), "title": key_title, "stream": key_stream},
        "rules": list(rules),
        "selected": None if selected is None else list(selected),
        "brush": brush,
        "file": file,
        "words": dict(words),
    }
    return pack(head, cells=blocked_by.astype(np.uint8))
