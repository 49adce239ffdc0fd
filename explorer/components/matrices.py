"""Heatmaps of the same kind side by side, each cell with its text: of weights, changes, scores.

Plotly takes a browser up to 100 ms for each of them, this view a few.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.components.mount import view
from explorer.components.payload import BLOCKED, Bytes, Words, check_words, pack, tokens_head
from explorer.components.standalone import Block
from explorer.figures.matrix import Matrix

WORDS = ("query", "key", "blocked", "hint", "keep")
"""The words that the view shows, by the names under which the caller passes them."""


@dataclass(frozen=True, eq=False)
class Panel:
    """One of the heatmaps: what it shows, in words, and the name of the file it is kept in."""

    title: str
    matrix: Matrix
    file: str = "headlight"


def matrices(
    panels: Sequence[Panel], *, key: str, kept: Sequence[Block] | None = None, words: Words
) -> None:
    """Show some heatmaps side by side, one above the other where there is no room for that.

    `kept`: what a page that a visitor keeps shows in their place.
    """
    view("matrices")(key=key, data=pack_matrices(panels, words=words), kept=kept)


def pack_matrices(panels: Sequence[Panel], *, words: Words) -> bytes:
    """The payload of `matrices`: two numbers a cell, its colour and its text.

    Raises ValueError where words are missing.
    """
    arrays: dict[str, Bytes] = {}
    heads = []
    for at, panel in enumerate(panels):
        matrix, scale = panel.matrix, panel.matrix.scale
        arrays[f"colours{at}"] = _colours(matrix)
        arrays[f"said{at}"] = np.ascontiguousarray(matrix.said, "<u2")[..., None].view(np.uint8)
        span = scale.high - scale.low
        heads.append(
            {
                "title": panel.title,
                "file": panel.file,
                "queries": _axis(matrix.query_tokens, matrix.query_title, matrix.query_stream),
                "keys": _axis(matrix.key_tokens, matrix.key_title, matrix.key_stream),
                "texts": list(matrix.texts),
                "palette": scale.colours,
                "scale": scale.title,
                "ticks": [[(value - scale.low) / span, label] for value, label in scale.ticks],
                "selected": matrix.selected,
            }
        )
    return pack({"panels": heads, "words": check_words(WORDS, words)}, **arrays)


def _axis(tokens: Sequence[str], title: str, stream: str | None) -> dict[str, Any]:
    return {**tokens_head(tokens), "title": title, "stream": stream}


def _colours(matrix: Matrix) -> Bytes:
    """The place of each cell on the scale, 0 to 254; blocked ones 255."""
    scale = matrix.scale
    values = np.where(matrix.blocked, scale.low, matrix.values).astype(np.float64)
    share = np.clip((values - scale.low) / (scale.high - scale.low), 0, 1)
    codes = np.floor(share * (BLOCKED - 1) + 0.5).astype(np.uint8)
    return np.where(matrix.blocked, np.uint8(BLOCKED), codes)
