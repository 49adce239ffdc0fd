"""Thumbnails of all heads, the first state of the linked view, made layer by layer."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from explorer.components.heads_payload import Address, further_step, open_pixels, pool, step_of
from explorer.components.payload import Bools, Bytes, Floats, encode_weights
from explorer.once import once

Cells = tuple[Floats, Bools]
"""Weights and mask (True = may attend) of heads, [head, query, key], or of one, [query, key]."""


@dataclass(frozen=True, eq=False)
class HeadGrid:
    """Thumbnails of every head, then of every aggregate.

    `shape` is [layer, head, query, key] of the heads; `codes` [head, row, column] are weights as
    `encode_weights` writes them, pooled in `step` x `step` squares; `darkest` is the largest
    weight.
    """

    shape: tuple[int, int, int, int]
    codes: Bytes = field(repr=False)
    step: int
    darkest: float

    @once
    def open(self) -> Bools:
        """The pixels [row, column] that are unblocked in some head; only these are sent."""
        return open_pixels(self.codes)

    @once
    def digest(self) -> str:
        """A hash of these thumbnails, so that a browser that already has them is not sent them
        again."""
        return blake2b(np.ascontiguousarray(self.codes).tobytes(), digest_size=12).hexdigest()


def pooled(cells: Cells, step: int) -> tuple[Bytes, float]:
    """The thumbnails of some heads, and their largest weight. Raises ValueError for weights outside
    0 to 1."""
    weights, mask = cells
    largest = float(np.where(mask, weights, 0).max(initial=0))
    return pool(encode_weights(weights, mask), step), largest


def joined(
    shape: tuple[int, int, int, int],
    step: int,
    parts: Sequence[tuple[Bytes, float]],
    whole: bool = False,
) -> HeadGrid:
    """The grid of `parts`, each `pooled`: the heads of each layer, then the aggregates. `whole`
    turns further pooling off."""
    codes = np.concatenate([codes for codes, _ in parts])
    further = 1 if whole else further_step(codes)
    darkest = max(0.01, *(largest for _, largest in parts))
    return HeadGrid(shape, pool(codes, further), step * further, darkest)


def grid(shape: tuple[int, int, int, int], parts: Iterable[Cells], whole: bool = False) -> HeadGrid:
    """The grid of `parts`: the heads of each layer, then the aggregates, each [head, query, key].

    `whole` turns pooling off. Parts are requested and pooled one at a time, so that they are never
    all in memory. Raises ValueError for weights outside 0 to 1.
    """
    step = 1 if whole else step_of(*shape[2:])
    return joined(shape, step, [pooled(cells, step) for cells in parts], whole)


CellsOf = Callable[[Address], Cells]
"""The exact weights and mask of one head or aggregate."""
