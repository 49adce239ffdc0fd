"""One number per head, per pair of heads, or per place of a patch, as one matrix for each kind."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.figures.frame import Floats, Words
from explorer.figures.matrix import Axis, Matrix, Scale
from explorer.figures.theme import Stream
from explorer.numbers import fixed, signed, whole_percent

Titled = tuple[str, Matrix]
Cell = tuple[int, int, int]
"""Map, row (a layer), column (a head)."""
HEAD = (20, 20)
"""Pixels of a head."""
MOST_TEXT, NUMBER = 16, (34, 26)
"""Largest number of columns with a number in each cell, and the pixels that it needs."""


def head_maps(
    maps: Sequence[Floats],
    names: Sequence[str],
    *,
    top: float | None = None,
    off: Collection[Cell] = (),
    selected: Cell | None = None,
    words: Words,
) -> list[Titled]:
    """Numbers [layer, head] on one scale, one map for each of `names`.

    The scale goes from 0 to `top`; without it, the values are changes, on a diverging scale. Heads
    in `off` are crossed out, `selected` is outlined.
    """
    if top is None:
        limit = max(0.1, *(float(np.abs(entry).max(initial=0.0)) for entry in maps))
        scale, number = Scale.around_zero(limit, words["value"], 2, "+"), signed
    else:
        ticks = ((0.0, "0"), (top, f"{top:.3g}"))
        scale, number = Scale("attention", 0, top, words["value"], ticks), fixed
    shown = []
    for at, values in enumerate(maps):
        gone = np.zeros(values.shape, bool)
        for _, layer, head in (entry for entry in off if entry[0] == at):
            gone[layer, head] = True
        axes = (
            Axis.numbers(values.shape[0], words["layer"], 1),
            Axis.numbers(values.shape[1], words["head"], 1),
        )
        texts = np.where(gone, words["off"], np.vectorize(number, otypes=[object])(values))
        more: dict[str, Any] = {"texts": texts, "written": np.where(gone, "✕", "")}
        shown.append(
            Matrix(axes, values, scale, selected=_within(at, selected), least=HEAD, **more)
        )
    return list(zip(names, shown, strict=True))


def _within(at: int, selected: Cell | None) -> tuple[int, int] | None:
    return selected[1:] if selected is not None and selected[0] == at else None


@dataclass(frozen=True, eq=False)
class EffectBlock:
    """One map: `values` [row, column] (NaN: no cell), its name, its row labels and its column
    labels (None: numbered, as heads are)."""

    name: str
    values: Floats
    rows: Sequence[str | None]
    columns: Sequence[str] | None = None
    stream: Stream | None = None


def effects(
    blocks: Sequence[EffectBlock],
    *,
    selected: Cell | None = None,
    rows_title: str = "",
    words: Words,
) -> list[Titled]:
    """How much each patch recovers [row, column] on a diverging scale, 1 = full recovery;
    `selected` is (block, row, column)."""
    ticks = ((-1, "−100 %"), (0, "0"), (1, "100 %"))
    scale = Scale("diverging", -1, 1, words["recovered"], ticks)
    shown = []
    for at, block in enumerate(blocks):
        columns = Axis.numbers(block.values.shape[1], words["head"], 1)
        if block.columns is not None:
            columns = Axis(block.columns, block.name, block.stream)
        shares = np.vectorize(_share, otypes=[object])(block.values)
        texts = np.where(np.isnan(block.values), words["nothing"], shares)
        is_small = np.isnan(block.values) | (np.abs(block.values) < 0.005)
        short = np.vectorize(lambda share: share[:-2], otypes=[object])(shares)
        fits = block.values.shape[1] <= MOST_TEXT
        matrix = Matrix(
            (Axis(block.rows, rows_title), columns),
            block.values,
            scale,
            texts=texts,
            written=np.where(is_small, "", short) if fits else None,
            selected=_within(at, selected),
            least=NUMBER if fits else HEAD,
        )
        shown.append((block.name, matrix))
    return shown


def _share(value: float) -> str:
    return "" if np.isnan(value) else whole_percent(value).replace("-", "−")
