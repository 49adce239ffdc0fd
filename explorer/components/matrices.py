"""Matrices side by side on canvas: numbers or masks, with a text for each cell.

A click can pick a cell, and a drag can paint several. Plotly needs up to 100 ms in the browser for
each heatmap; this view needs a few ms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.components.mount import Index, index_of
from explorer.components.payload import Bytes, Words, axis_head, pack
from explorer.figures.matrix import Matrix, Scale, Texts

BLANK = 249
"""The byte of a blank cell; lower ones are positions on the colour scale, higher ones rules."""


@dataclass(frozen=True, eq=False)
class Panel:
    """One of the matrices, a description of it, and the name of its picture file."""

    title: str
    matrix: Matrix
    file: str = "headlight"


@dataclass(frozen=True)
class Stroke:
    """The cells (row, column) painted in one drag, all to be opened or all to be blocked."""

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


def pack_matrices(
    panels: Sequence[Panel],
    *,
    words: Words,
    captioned: bool = True,
    picks: bool = False,
    brush: bool = False,
) -> bytes:
    """Pack the payload: of each cell one byte, and its text or its number if it has one.

    `captioned` shows the titles, `picks` sends the cell that is clicked, `brush` the cells that are
    painted.
    """
    arrays: dict[str, Bytes] = {}
    heads = []
    for at, panel in enumerate(panels):
        matrix, scale = panel.matrix, panel.matrix.scale
        arrays[f"cells{at}"] = _cells(matrix)
        blocked = "" if scale else f"{words['blocked']}: "
        texts = [matrix.rules[0], *(f"{blocked}{rule}" for rule in matrix.rules[1:])]
        if matrix.texts is not None:
            texts, arrays[f"said{at}"] = _counted(matrix.texts)
        elif matrix.values is not None:
            arrays[f"numbers{at}"] = _bytes(matrix.values, "<f4")
        written: list[str] = []
        if matrix.written is not None:
            written, arrays[f"written{at}"] = _counted(matrix.written)
        heads.append(
            {
                "title": panel.title,
                "file": panel.file,
                "rows": axis_head(matrix.axes[0]),
                "columns": axis_head(matrix.axes[1]),
                "scale": None if scale is None else _scale(scale),
                "rules": list(matrix.rules),
                "texts": texts,
                "written": written,
                "marks": [
                    {**vars(mark), "cells": np.asarray(mark.cells, int).tolist()}
                    for mark in matrix.marks
                ],
                "selected": matrix.selected,
                "least": matrix.least,
            }
        )
    does = {"captioned": captioned, "picks": picks, "brush": brush}
    return pack({"panels": heads, **does, "words": dict(words)}, **arrays)


def _scale(scale: Scale) -> dict[str, Any]:
    span = scale.high - scale.low
    ticks = [[(value - scale.low) / span, label] for value, label in scale.ticks]
    return {"palette": scale.colours, "title": scale.title, "ticks": ticks}


def _cells(matrix: Matrix) -> Bytes:
    """Of each cell the rule that blocks it, above BLANK, else its position on the scale, below."""
    codes, shares = matrix.codes, np.zeros(matrix.shape)
    if matrix.scale is not None and matrix.values is not None:
        scale = matrix.scale
        shares = (matrix.values.astype(np.float64) - scale.low) / (scale.high - scale.low)
    blank = np.isnan(shares)
    open_cells = np.floor(np.clip(np.where(blank, 0, shares), 0, 1) * (BLANK - 1) + 0.5)
    colours = np.where(blank, BLANK, open_cells).astype(np.uint8)
    return np.where(codes > 0, BLANK + codes, colours).astype(np.uint8)


def _counted(texts: Texts) -> tuple[list[str], Bytes]:
    """The unique texts, and the index of each cell's text in two bytes: many cells share few.

    Raises ValueError for more texts than two bytes count.
    """
    cells = np.asarray(texts, object)
    places: dict[str, int] = {}
    indices = [places.setdefault(text, len(places)) for text in cells.ravel().tolist()]
    if len(places) > 1 << 16:
        raise ValueError(f"{len(places)} different texts, at most {1 << 16}")
    return list(places), _bytes(np.array(indices).reshape(cells.shape), "<u2")


def _bytes(cells: NDArray[Any], kind: str) -> Bytes:
    return np.ascontiguousarray(cells, kind)[..., None].view(np.uint8)
