"""Thumbnails of all heads, the first state of the linked view, made layer by layer."""

from collections.abc import Callable, Iterable
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


def grid(
    shape: tuple[int, int, int, int],
    parts: Iterable[Cells],
    n_aggregates: int = 0,
    whole: bool = False,
) -> HeadGrid:
    """Build the grid of `parts`: the heads of each layer, then the aggregates, each [head, query,
    key].

    `whole` turns pooling off. Parts are requested and pooled one at a time, so that they are never
    all in memory. Raises ValueError for weights outside 0 to 1.
    """
    *_, n_query, n_key = shape
    step = 1 if whole else step_of(n_query, n_key)
    small, darkest = [], 0.01
    for weights, mask in parts:
        small.append(pool(encode_weights(weights, mask), step))
        darkest = max(darkest, float(np.where(mask, weights, 0).max(initial=0)))
    rows, columns = -(-n_query // step), -(-n_key // step)
    codes = np.concatenate([np.zeros((0, rows, columns), np.uint8), *small])
    further = 1 if whole else further_step(codes)
    return HeadGrid(shape, pool(codes, further), step * further, darkest)


CellsOf = Callable[[Address], Cells]
"""The exact weights and mask of one head or aggregate."""
