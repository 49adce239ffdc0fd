"""Heatmaps of one kind (weights, changes or scores) side by side, with a text for each cell.

Plotly needs up to 100 ms in the browser for each heatmap; this view needs a few ms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.components.mount import view
from explorer.components.payload import BLOCKED, Bytes, Words, pack, tokens_head
from explorer.figures.matrix import Matrix


@dataclass(frozen=True, eq=False)
class Panel:
    """One of the heatmaps, a description of it, and the name of its picture file."""

    title: str
    matrix: Matrix
    file: str = "headlight"


def matrices(panels: Sequence[Panel], *, key: str, words: Words) -> None:
    """Show heatmaps side by side, or one above the other if there is no room."""
    view("matrices")(key=key, data=pack_matrices(panels, words=words))


def pack_matrices(panels: Sequence[Panel], *, words: Words) -> bytes:
    """Pack the payload of `matrices`: two numbers per cell, its colour and its text."""
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
    return pack({"panels": heads, "words": dict(words)}, **arrays)


def _axis(tokens: Sequence[str], title: str, stream: str | None) -> dict[str, Any]:
    return {**tokens_head(tokens), "title": title, "stream": stream}


def _colours(matrix: Matrix) -> Bytes:
    """The position of each cell on the colour scale, 0 to 254; 255 if blocked."""
    scale = matrix.scale
    values = np.where(matrix.blocked, scale.low, matrix.values).astype(np.float64)
    share = np.clip((values - scale.low) / (scale.high - scale.low), 0, 1)
    codes = np.floor(share * (BLOCKED - 1) + 0.5).astype(np.uint8)
    return np.where(matrix.blocked, np.uint8(BLOCKED), codes)
