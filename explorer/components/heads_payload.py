"""The payload of the linked view of heads: thumbnails of all, made layer by layer, and exact cells
of open and pinned ones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from explorer.components.mount import inside, whole
from explorer.components.payload import BLOCKED, Bools, Bytes, Floats, encode_weights
from explorer.numbers import digits, whole_percent
from explorer.once import once

Address = tuple[int, int]
Whys = Callable[[int, int], NDArray[np.str_] | Sequence[Sequence[str]]]

Scale = Literal["linear", "log", "rank"]
SCALES: tuple[Scale, ...] = get_args(Scale)

MAX_PINNED = 3
"""The most heads that are legible side by side."""

MAX_SIDE = 64
"""Largest side of a thumbnail in cells; a screen shows no more."""

EXACT_BYTES = 200_000
"""Up to this many bytes (at 32 bits per cell), a standalone view includes all heads exactly."""

MAX_BYTES = 1_000_000
"""Most bytes of all thumbnails together: enough for 30 layers of 9 heads at 64 tokens under a
causal mask unpooled, or for a thousand heads without a mask at 22 x 22 cells."""


@dataclass(frozen=True)
class HeadsSelection:
    """The selection in the view; layers, heads and queries count from 0.

    `opened` is the head shown large, `pinned` are the heads next to it, `query` is the locked query
    (None: not locked) and `key` its selected cell (None: none). `scale` and `shared` (False: each
    head has its own range) define how weights become colours. `by_measure` sorts heads by the
    measure, largest first.
    """

    opened: Address | None = None
    pinned: tuple[Address, ...] = ()
    query: int | None = None
    key: int | None = None
    scale: Scale = "linear"
    shared: bool = True
    by_measure: bool = False

    @property
    def shown(self) -> tuple[Address, ...]:
        """Every head shown large: the pinned ones, then the open one."""
        opened = () if self.opened is None or self.opened in self.pinned else (self.opened,)
        return self.pinned + opened


@dataclass(frozen=True, eq=False)
class Measure:
    """One number per head:

    `values` [layer, head], NaN if missing, and its `name`. `percent` shows 0.12 as "12 %". The view
    tints heads by it and can sort by it.
    """

    name: str
    values: Floats
    percent: bool = False


@dataclass(frozen=True, eq=False)
class PictureAxis:
    """A picture whose patches are the keys, and in self-attention the queries too.

    `pixels` are uint8 [height, width] or [height, width, 3]; `grid` counts its rows and columns of
    patches. `keys` and `queries` give the patch of each token, counted row by row, or -1 for a
    token that is no patch.
    """

    pixels: NDArray[np.uint8]
    grid: tuple[int, int]
    keys: Sequence[int]
    queries: Sequence[int]

    def head(self) -> dict[str, Any]:
        """The part of the JSON head."""
        rows, columns = self.grid
        return {
            "height": self.pixels.shape[0],
            "width": self.pixels.shape[1],
            "rows": rows,
            "columns": columns,
            "keys": [int(patch) for patch in self.keys],
            "queries": [int(patch) for patch in self.queries],
        }

    def rgb(self) -> Bytes:
        """Its pixels as [height, width, 3]."""
        grey = self.pixels.ndim == 2
        return np.repeat(self.pixels[..., None], 3, -1) if grey else self.pixels


@dataclass(frozen=True)
class HeadAddresses:
    """The addresses of a view: heads layer by layer, then the aggregates as one more layer."""

    n_layers: int
    n_heads: int
    n_aggregates: int

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Every address, in the flat order."""
        rows = [(layer, self.n_heads) for layer in range(self.n_layers)]
        rows.append((self.n_layers, self.n_aggregates))
        return tuple((layer, head) for layer, n_heads in rows for head in range(n_heads))

    def index(self, address: Address) -> int | None:
        """The index of an address in the flat order, None if there is no such head."""
        layer, head = address
        regular = 0 <= layer < self.n_layers and 0 <= head < self.n_heads
        aggregate = layer == self.n_layers and 0 <= head < self.n_aggregates
        return layer * self.n_heads + head if regular or aggregate else None


def read_selection(
    sent: Any, heads: HeadAddresses, n_query: int, n_key: int
) -> HeadsSelection | None:
    """Validate a selection sent by the browser, dropping indices that no longer exist; None if
    empty.

    A click can arrive late, when the data already has fewer heads or tokens.
    """
    if not isinstance(sent, Mapping):
        return None

    def address(pair: Any) -> Address | None:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            return None
        layer, head = whole(pair[0]), whole(pair[1])
        if layer is None or head is None or heads.index((layer, head)) is None:
            return None
        return layer, head

    pairs = sent.get("pinned")
    pinned = [address(pair) for pair in pairs] if isinstance(pairs, list | tuple) else []
    query, column = inside(sent.get("query"), n_query), inside(sent.get("key"), n_key)
    scale = sent.get("scale")
    return HeadsSelection(
        address(sent.get("opened")),
        tuple(dict.fromkeys(pin for pin in pinned if pin is not None))[:MAX_PINNED],
        query,
        None if query is None else column,
        scale if scale in SCALES else "linear",
        bool(sent.get("shared", True)),
        bool(sent.get("by_measure", False)),
    )


def step_of(n_query: int, n_key: int) -> int:
    """The side, in cells, of one thumbnail pixel, so that a thumbnail has at most MAX_SIDE per
    side."""
    return max(1, -(-max(n_query, n_key) // MAX_SIDE))


def open_pixels(codes: Bytes) -> Bools:
    """The pixels [row, column] that are unblocked in some thumbnail of [head, row, column].

    Only these are sent: little more than half under a causal mask. All of them if all are blocked.
    """
    some: Bools = (codes != BLOCKED).any(axis=0)
    return some if some.any() else np.ones_like(some)


def further_step(codes: Bytes) -> int:
    """The pooling step with which thumbnails fit into MAX_BYTES, or are one pixel each."""
    n, *sides = codes.shape
    some = open_pixels(codes).astype(np.uint8)[None]
    step = 1
    while step < max(sides) and n * int(pool(some, step).sum()) > MAX_BYTES:
        step += 1
    return step


def pool(codes: Bytes, step: int) -> Bytes:
    """Max-pool [head, query, key] in step x step squares; 255 if all cells are blocked.

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


_ROUNDING = np.concatenate([[5e-324], np.arange(5, 1000, 10) / 1e4, np.arange(105, 1000, 10) / 1e3])
"""Weights at which the displayed percentage changes: "0.0 %", "< 0.1 %", "0.1 %" … "9.9 %", "10 %"
… "100 %", as in numbers.js."""


def halves(pattern: Floats) -> Bytes:
    """Weights [query, key] as the two little-endian bytes of each float16: [query, key, 2].

    If the nearest float16 would display as another percentage than the weight, its neighbour on the
    weight's side is used, so that the displayed digits are exact.
    """
    weights = np.clip(pattern, 0, 1)
    near = weights.astype(np.float16)
    written = _ROUNDING.searchsorted(near, side="right")
    meant = _ROUNDING.searchsorted(weights, side="right")
    up, down = np.nextafter(near, np.float16(np.inf)), np.nextafter(near, np.float16(0))
    near = np.where(meant > written, up, np.where(meant < written, down, near))
    return near.astype("<f2").view(np.uint8).reshape(*pattern.shape, 2)


def row_sums(pattern: Floats) -> Bytes:
    """The sum of each row of [query, key] as the eight little-endian bytes of a float64.

    Computed from the unrounded weights: rounding errors would add up in a long row.
    """
    sums = pattern.sum(axis=1, dtype=np.float64).astype("<f8")
    return sums.view(np.uint8).reshape(len(pattern), 8)


def reasons(
    blocked: NDArray[np.bool_],
    whys: NDArray[np.str_] | Sequence[Sequence[str]] | None,
    known: list[str],
) -> Bytes:
    """Per cell: 0 if open, 1 if blocked, or 2 + the index of its reason in `known`.

    New reasons are added to `known`, which has room for 254.
    """
    codes = blocked.astype(np.uint8)
    if whys is None:
        return codes
    words = np.asarray(whys, dtype=object)
    for word in sorted({str(word) for word in words[blocked]} - {""}):
        if word not in known:
            known.append(word)
        codes[blocked & (words == word)] = 2 + known.index(word)
    return codes


def summary(
    pattern: Floats, blocked: NDArray[np.bool_], queries: Sequence[str], keys: Sequence[str]
) -> str:
    """A head as text, query by query: "喜欢 → like 71 %; …", "–" where all is blocked."""
    weights = np.where(blocked, -1.0, pattern)
    most = weights.argmax(axis=1)
    return "; ".join(
        f"{query} → –"
        if blocked[row].all()
        else f"{query} → {keys[key]} {whole_percent(weights[row, key])}"
        for row, (query, key) in enumerate(zip(queries, most, strict=True))
    )


def measure_head(measure: Measure) -> dict[str, Any]:
    """A measure for the payload's JSON head: texts, order (largest first) and values scaled to 0 to
    1."""
    flat = np.asarray(measure.values, np.float64).ravel()
    known = np.isfinite(flat)
    low = min(0.0, float(flat[known].min(initial=0.0)))
    span = float(flat[known].max(initial=0.0)) - low or 1.0
    write = whole_percent if measure.percent else partial(digits, n=2)  # fits below a small head
    return {
        "name": measure.name,
        "texts": [write(value) if there else "–" for value, there in zip(flat, known, strict=True)],
        "shares": [
            round((value - low) / span, 4) if there else None
            for value, there in zip(flat.tolist(), known, strict=True)
        ],
        "order": np.argsort(np.where(known, -flat, np.inf), kind="stable").tolist(),
    }


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
    thumbnails, largest = zip(*parts, strict=True)
    codes = np.concatenate(thumbnails)
    further, darkest = 1 if whole else further_step(codes), max(0.01, *largest)
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


def whole_grid(weights: Floats, mask: Bools, whole: bool = True) -> tuple[HeadGrid, CellsOf]:
    """The grid of weights [layer, head, query, key] and a mask broadcastable to them, and the
    exact cells of its heads; `whole` as in `grid`."""
    allowed = np.broadcast_to(mask, weights.shape)
    sides = weights.shape[2:]
    cells = weights.reshape(-1, *sides), allowed.reshape(-1, *sides)
    layers, heads, queries, keys = weights.shape
    thumbnails = grid((layers, heads, queries, keys), [cells], whole)
    return thumbnails, lambda address: (weights[address], allowed[address])
