"""What the linked view of heads sends: every head small, the opened and pinned ones exactly."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from explorer.components.mount import inside, whole
from explorer.components.payload import BLOCKED, Bools, Bytes, Floats
from explorer.figures.theme import show
from explorer.numbers import whole_percent

Address = tuple[int, int]
Whys = Callable[[int, int], NDArray[np.str_] | Sequence[Sequence[str]]]

Scale = Literal["linear", "log", "rank"]
SCALES: tuple[Scale, ...] = get_args(Scale)

MAX_PINNED = 3
"""The most heads that can still be read side by side."""

MAX_SIDE = 64
"""Cells a side of a thumbnail; more would be finer than the screen that draws them."""

EXACT_BYTES = 200_000
"""Up to this much, a view that stands alone carries the cells of all heads, counted as 32 bits."""

MAX_BYTES = 1_000_000
"""What all thumbnails take on their way to the browser: under a causal mask 30 layers of 9 heads at
64 tokens whole; a thousand heads, where nothing is blocked, as 22 x 22 cells."""


@dataclass(frozen=True)
class HeadsSelection:
    """What is chosen in the view; layers, heads and queries count from 0.

    `opened` is the head shown large, `pinned` the ones kept beside it, `query` the locked row,
    None when free, `key` its chosen cell, None where none is. `scale` and `shared` (else each
    head has a range of its own) say how weights become colours, `by_measure` that the head with
    the largest measure comes first.
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
        """Every head that is shown large: the pinned ones, then the opened one."""
        opened = () if self.opened is None or self.opened in self.pinned else (self.opened,)
        return self.pinned + opened


@dataclass(frozen=True, eq=False)
class Measure:
    """One number per head, `values` [layer, head], NaN where there is none, and its `name`.

    `percent` shows 0.12 as "12 %". The view tints by it, and can sort by it.
    """

    name: str
    values: Floats
    percent: bool = False


@dataclass(frozen=True)
class Heads:
    """The addresses of a view: layers of heads row by row, then the aggregates as one more row."""

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
        """The place of an address in the flat order, None where there is no such head."""
        layer, head = address
        regular = 0 <= layer < self.n_layers and 0 <= head < self.n_heads
        aggregate = layer == self.n_layers and 0 <= head < self.n_aggregates
        return layer * self.n_heads + head if regular or aggregate else None


def read_selection(sent: Any, heads: Heads, n_query: int, n_key: int) -> HeadsSelection | None:
    """What the browser sent as a selection, without what no longer exists; None for nothing.

    A click can arrive late, on data that meanwhile has fewer heads or tokens.
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
        tuple(dict.fromkeys(each for each in pinned if each is not None))[:MAX_PINNED],
        query,
        None if query is None else column,
        scale if scale in SCALES else "linear",
        bool(sent.get("shared", True)),
        bool(sent.get("by_measure", False)),
    )


def step_of(n_query: int, n_key: int) -> int:
    """How many cells a side one pixel of a thumbnail holds, which has at most MAX_SIDE a side."""
    return max(1, -(-max(n_query, n_key) // MAX_SIDE))


def open_pixels(codes: Bytes) -> Bools:
    """The pixels [row, column] that are open in some thumbnail of [head, row, column].

    They alone travel, which under a causal mask is little more than half. All of them where all
    are blocked.
    """
    some: Bools = (codes != BLOCKED).any(axis=0)
    return some if some.any() else np.ones_like(some)


def further_step(codes: Bytes) -> int:
    """By how much to pool thumbnails so that they travel in MAX_BYTES, or are one pixel each."""
    n, *sides = codes.shape
    some = open_pixels(codes).astype(np.uint8)[None]
    step = 1
    while step < max(sides) and n * int(pool(some, step).sum()) > MAX_BYTES:
        step += 1
    return step


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


_ROUNDING = np.concatenate([[5e-324], np.arange(5, 1000, 10) / 1e4, np.arange(105, 1000, 10) / 1e3])
"""Where the written percentage changes: "0.0 %", "< 0.1 %", "0.1 %" … "9.9 %", "10 %" … "100 %", as
numbers.js writes it."""


def halves(pattern: Floats) -> Bytes:
    """Weights [query, key] as the two little-endian bytes of each float16: [query, key, 2].

    Where the nearest one would be written as another percentage than the weight itself, its
    neighbour on the weight's side is taken, so that readers see the digits of the weight.
    """
    weights = np.clip(pattern, 0, 1)
    near = weights.astype(np.float16)
    written, meant = (_ROUNDING.searchsorted(each, side="right") for each in (near, weights))
    up, down = (np.nextafter(near, np.float16(end)) for end in (np.inf, 0))
    near = np.where(meant > written, up, np.where(meant < written, down, near))
    return near.astype("<f2").view(np.uint8).reshape(*pattern.shape, 2)


def row_sums(pattern: Floats) -> Bytes:
    """The sum of each row of [query, key] as the eight little-endian bytes of a float64.

    It is that of the weights as the model computed them: in a long row rounding would show.
    """
    sums = pattern.sum(axis=1, dtype=np.float64).astype("<f8")
    return sums.view(np.uint8).reshape(len(pattern), 8)


def reasons(
    blocked: NDArray[np.bool_],
    whys: NDArray[np.str_] | Sequence[Sequence[str]] | None,
    known: list[str],
) -> Bytes:
    """Per cell 0 where open, 1 where blocked, or 2 + the place of its reason in `known`.

    New reasons are added to `known`. Raises ValueError when the words do not fit the cells, or
    are more than a byte can tell.
    """
    codes = blocked.astype(np.uint8)
    if whys is None:
        return codes
    words = np.asarray(whys, dtype=object)
    if words.shape != blocked.shape:
        raise ValueError(f"blocked_by has shape {words.shape}, the head has {blocked.shape}")
    for word in sorted({str(word) for word in words[blocked]} - {""}):
        if word not in known:
            known.append(word)
        if len(known) > 254:
            raise ValueError("more than 254 different reasons for blocked cells")
        codes[blocked & (words == word)] = 2 + known.index(word)
    return codes


def summary(
    pattern: Floats, blocked: NDArray[np.bool_], queries: Sequence[str], keys: Sequence[str]
) -> str:
    """A head as text, query by query: "喜欢 → like 71 %; …", "–" where all is blocked."""
    weights = np.where(blocked, -1.0, pattern)
    most = weights.argmax(axis=1)
    return "; ".join(
        f"{show(query)} → –"
        if blocked[row].all()
        else f"{show(query)} → {show(keys[key])} {whole_percent(weights[row, key])}"
        for row, (query, key) in enumerate(zip(queries, most, strict=True))
    )


def measure_head(measure: Measure, shape: tuple[int, int]) -> dict[str, Any]:
    """A measure for the head: its texts, its order (largest first) and its shares of the range.

    Raises ValueError naming the sizes when it does not have one value a head.
    """
    values = np.asarray(measure.values, np.float64)
    if values.shape != shape:
        raise ValueError(f"measure has shape {values.shape}, expected {shape}: one value a head")
    flat = values.ravel()
    known = np.isfinite(flat)
    low = min(0.0, float(flat[known].min(initial=0.0)))
    span = float(flat[known].max(initial=0.0)) - low or 1.0
    write = whole_percent if measure.percent else "{:.3g}".format
    return {
        "name": measure.name,
        "texts": [write(value) if there else "–" for value, there in zip(flat, known, strict=True)],
        "shares": [
            round((value - low) / span, 4) if there else None
            for value, there in zip(flat.tolist(), known, strict=True)
        ],
        "order": np.argsort(np.where(known, -flat, np.inf), kind="stable").tolist(),
    }
