"""Linear maps, laid out in memory as they are multiplied soonest; `models.fast` says why."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

FEW = range(2, 9)  # rows for which the product with a packed matrix is the sooner one
SIZES = (*FEW, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Numbers of rows that are multiplied packed. oneDNN compiles half a megabyte of code in 0.3 ms for
each number that it meets with each matrix, so others are filled up to one of these, or divided."""
LARGE = 2**19  # numbers in a matrix that may be read sooner packed by a single row too


class NotCopied:
    """What stands beside parameters for speed only; a copy of their module starts without it."""

    def __deepcopy__(self, memo: object) -> None:
        """None: the copied parameters lie elsewhere in memory, and their counters start anew."""


@dataclass(eq=False)
class Packed(NotCopied):
    """A matrix [out, in] in oneDNN's own order, and the parameters that it was taken from.

    It must not outlive a change of theirs: `current` compares the counters that torch advances
    whenever a tensor is written to.
    """

    matrix: Tensor
    sources: tuple[Tensor, ...]
    versions: tuple[int, ...]
    for_one: bool = False  # whether it is read for a single row too

    @classmethod
    def of(cls, matrix: Tensor, *sources: Tensor) -> "Packed | None":
        """`matrix` packed; None where oneDNN has no product for it: all but float32 on a CPU."""
        if matrix.dtype != torch.float32 or matrix.device.type != "cpu":
            return None
        try:
            packed = torch.ops.mkldnn._reorder_linear_weight(matrix, FEW[len(FEW) // 2])
        except (AttributeError, RuntimeError):  # a torch built without it, which has no such kernel
            return None
        return cls(packed, sources, tuple(source._version for source in sources))

    def is_sooner(self, rows: int) -> bool:
        """Whether so many rows are multiplied sooner by it than by the plain matrix."""
        if rows == 1:
            return self.for_one
        return rows in FEW or (rows > 0 and many_are_sooner_packed())

    @property
    def current(self) -> bool:
        """False once a source was written to."""
        return all(
            source._version == version
            for source, version in zip(self.sources, self.versions, strict=True)
        )


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, packed: Packed | None) -> Tensor:
    """x W^T + b over the last axis: x [..., in], weight [out, in], bias [out] -> [..., out].

    `packed` is the same matrix again, read where that is sooner: without gradients, which have to
    reach the parameter itself, and for FEW rows; for one, where `settle_single_rows` found it so,
    and for more, where `many_are_sooner_packed`. A batch that is one text in all its rows, as
    `expand` makes it, is multiplied once.
    """
    if torch.is_grad_enabled():
        return nn.functional.linear(x, weight, bias)
    if x.dim() > 2 and x.shape[0] > 1 and x.stride(0) == 0:
        return linear(x[:1], weight, bias, packed).expand(len(x), *x.shape[1:-1], -1)
    rows = x.numel() // x.shape[-1]
    if packed is None or not packed.is_sooner(rows) or not packed.current:
        return nn.functional.linear(x, weight, bias)
    return read_packed(x, packed, bias)


def read_packed(x: Tensor, packed: Packed, bias: Tensor | None) -> Tensor:
    """`linear` by the packed matrix."""
    rows = x.numel() // x.shape[-1]
    if rows == 1 or rows in SIZES:
        return product(x, packed, bias)
    flat, made = x.reshape(rows, -1), []
    for taken, size in portions(rows):
        part, flat = flat[:taken], flat[taken:]
        part = nn.functional.pad(part, (0, 0, 0, size - taken)) if size > taken else part
        made.append(product(part, packed, bias)[:taken])
    whole = made[0] if len(made) == 1 else torch.cat(made)
    return whole.view(*x.shape[:-1], -1)


@cache
def portions(rows: int) -> tuple[tuple[int, int], ...]:
    """Rows in parts that are multiplied at once: (how many, one of SIZES that has room for them).

    What is added is at most a quarter, or 16 rows; where that is too little, there are more parts.
    """
    made = []
    while rows:
        size = next((each for each in SIZES if each >= rows), SIZES[-1])
        if size - rows > max(16, rows // 4):
            size = max(each for each in SIZES if each <= rows)
        made.append((min(size, rows), size))
        rows -= made[-1][0]
    return tuple(made)


def product(x: Tensor, packed: Packed, bias: Tensor | None) -> Tensor:
    """`read_packed` for a number of rows that oneDNN shall remember."""
    return torch.ops.mkldnn._linear_pointwise(x, packed.matrix, bias, "none", [], "")


Timed = Sequence[tuple[Tensor, Tensor, Packed]]
"""What is multiplied, by which matrix, and the same packed."""


@torch.inference_mode()
def timed(maps: Timed, rounds: int) -> tuple[float, float]:
    """Seconds of all products, plain and packed, each the soonest of so many rounds: a busy machine
    only ever adds to them."""
    plain, packed = math.inf, math.inf
    for _ in range(rounds):
        start = perf_counter()
        for x, weight, _ in maps:
            nn.functional.linear(x, weight)
        between = perf_counter()
        for x, _, each in maps:
            product(x, each, None)
        plain, packed = min(plain, between - start), min(packed, perf_counter() - between)
    return plain, packed


def settle_single_rows(maps: Sequence[tuple[Tensor, Packed]]) -> None:
    """Time a single row through all LARGE widening maps both ways, and note the sooner one.

    They are read one after another, as a step of decoding does: out of memory, where they are more
    than the cache holds. Machines differ: 2,048 x 512 takes an EPYC server 0.125 ms packed and 0.14
    by columns. Three rounds take 10 ms for 100 MB of weights.
    """
    large = [
        (weight.new_zeros(1, weight.shape[1]), weight, packed)
        for weight, packed in maps
        if weight.numel() >= LARGE and weight.shape[0] > weight.shape[1]
    ]
    plain, packed_seconds = timed(large, rounds=3)
    for _, _, each in large:
        each.for_one = packed_seconds < plain


@cache
def many_are_sooner_packed() -> bool:
    """Whether oneDNN multiplies many rows sooner than torch's BLAS, by a quarter or more.

    Both are at the limit of the processor where they use all of it. But MKL, with which torch is
    built, leaves AVX-512 alone on AMD's, and takes 2.3 times as long there (`benchmarks.packed`).
    Five rounds take 3 ms, once in a process. So wide a margin is decided alike by all processes of
    a machine, unless it has just that one.
    """
    x, weight = torch.ones(64, 256), torch.ones(512, 256)
    packed = Packed.of(weight)
    if packed is None:
        return False
    plain, packed_seconds = timed([(x, weight, packed)], rounds=5)
    return packed_seconds < 0.75 * plain


class FastLinear(nn.Linear):
    """A linear map that can be laid out for decoding."""

    _packed: Packed | None = None

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias, self._packed)

    def lay_out(self) -> None:
        """Store the matrix by columns, and keep it packed too. Moving it forgets that.

        Shapes, values and the state dict stay as they are.
        """
        if self.weight.is_contiguous():
            self.weight.data = self.weight.data.t().contiguous().t()
        if self.weight.t().is_contiguous():  # else it is a part of a joined matrix
            self._packed = Packed.of(self.weight.detach(), self.weight)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> "FastLinear":
        self._packed = None
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self
