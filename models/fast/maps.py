"""Linear maps in the memory layout that multiplies fastest; `models.fast` gives the reasons."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

FEW = range(2, 9)  # numbers of rows for which a packed matrix is always used
SIZES = (*FEW, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Numbers of rows for packed products. For each new number and matrix oneDNN compiles half a
megabyte of code in 0.3 ms, so other numbers of rows are padded to one of these, or split."""
_VERSION = attrgetter("_version")
LARGE = 2**19  # elements from which a packed matrix may be faster for a single row too


class NotCopied:
    """Data derived from parameters for speed; a deep copy of the module does not copy it."""

    def __deepcopy__(self, memo: object) -> None:
        """Return None: copied parameters have new storage and new version counters."""


@dataclass(eq=False)
class Packed(NotCopied):
    """A matrix [out, in] in oneDNN's packed order, and the parameters it was made from.

    It is invalid once they change: `current` compares the version counters that torch increments
    at each in-place write.
    """

    matrix: Tensor
    sources: tuple[Tensor, ...]
    versions: tuple[int, ...]
    for_one: bool = False  # whether it is used for a single row too

    @classmethod
    def of(cls, matrix: Tensor, *sources: Tensor) -> "Packed | None":
        """Pack `matrix`; None if oneDNN cannot multiply it (anything but float32 on a CPU)."""
        if matrix.dtype != torch.float32 or matrix.device.type != "cpu":
            return None
        try:
            packed = torch.ops.mkldnn._reorder_linear_weight(matrix, FEW[len(FEW) // 2])
        except (AttributeError, RuntimeError):  # torch built without oneDNN
            return None
        return cls(packed, sources, tuple(map(_VERSION, sources)))

    def is_sooner(self, rows: int) -> bool:
        """Whether the packed product is faster than the plain one for this number of rows."""
        if rows == 1:
            return self.for_one
        return rows in FEW or (rows > 0 and many_are_sooner_packed())

    @property
    def current(self) -> bool:
        """False once a source was modified."""
        return self.versions == tuple(map(_VERSION, self.sources))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, packed: Packed | None) -> Tensor:
    """x W^T + b over the last axis: x [..., in], weight [out, in], bias [out] -> [..., out].

    `packed` is a copy of the same matrix. It is used only without gradients, which must reach the
    parameter itself, and only if it is faster: for FEW rows, for one row if `settle_single_rows`
    found it so, and for more if `many_are_sooner_packed`. A batch of identical rows, as made by
    `expand`, is multiplied once.
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
    """`linear` with the packed matrix."""
    rows = x.numel() // x.shape[-1]
    if rows == 1 or rows in SIZES:
        return product(x, packed, bias)
    flat, outputs = x.reshape(rows, -1), []
    for taken, size in portions(rows):
        part, flat = flat[:taken], flat[taken:]
        part = nn.functional.pad(part, (0, 0, 0, size - taken)) if size > taken else part
        outputs.append(product(part, packed, bias)[:taken])
    whole = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
    return whole.view(*x.shape[:-1], -1)


@cache
def portions(rows: int) -> tuple[tuple[int, int], ...]:
    """Split rows into parts for one product each: (number of rows, padded size from SIZES).

    Padding adds at most a quarter, or 16 rows; if that is not enough, there are more parts.
    """
    parts = []
    while rows:
        size = next((option for option in SIZES if option >= rows), SIZES[-1])
        if size - rows > max(16, rows // 4):
            size = max(option for option in SIZES if option <= rows)
        parts.append((min(size, rows), size))
        rows -= parts[-1][0]
    return tuple(parts)


def product(x: Tensor, packed: Packed, bias: Tensor | None) -> Tensor:
    """`read_packed` for a number of rows from SIZES (oneDNN caches code per size)."""
    return torch.ops.mkldnn._linear_pointwise(x, packed.matrix, bias, "none", [], "")


Timed = Sequence[tuple[Tensor, Tensor, Packed]]
"""Triples (input, matrix, packed matrix)."""


@torch.inference_mode()
def timed(maps: Timed, rounds: int) -> tuple[float, float]:
    """Seconds of all products, plain and packed: the minimum over the rounds, since other load only
    adds time."""
    plain, packed = math.inf, math.inf
    for _ in range(rounds):
        start = perf_counter()
        for x, weight, _ in maps:
            nn.functional.linear(x, weight)
        between = perf_counter()
        for x, _, matrix in maps:
            product(x, matrix, None)
        plain, packed = min(plain, between - start), min(packed, perf_counter() - between)
    return plain, packed


def settle_single_rows(maps: Sequence[tuple[Tensor, Packed]]) -> None:
    """Time a single row through all LARGE widening maps, plain and packed, and pick the faster way.

    The maps are read one after another, as in a decoding step, so from memory if they exceed the
    cache. Machines differ: on an EPYC server 2,048 x 512 takes 0.125 ms packed and 0.14 by columns.
    Three rounds take 10 ms for 100 MB of weights.
    """
    large = [
        (weight.new_zeros(1, weight.shape[1]), weight, packed)
        for weight, packed in maps
        if weight.numel() >= LARGE and weight.shape[0] > weight.shape[1]
    ]
    plain, packed_seconds = timed(large, rounds=3)
    for _, _, matrix in large:
        matrix.for_one = packed_seconds < plain


@cache
def many_are_sooner_packed() -> bool:
    """Whether oneDNN is at least a quarter faster than torch's BLAS for many rows.

    Both reach the processor's limit if they use all of it. But MKL, the BLAS of torch, does not use
    AVX-512 on AMD processors and takes 2.3 times as long there (`benchmarks.packed`). Five rounds
    take 3 ms, once per process. The wide margin makes all processes on a machine decide alike,
    unless its ratio is close to the threshold.
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
        """Store the matrix by columns, and a packed copy; moving the module drops the copy.

        Shapes, values and the state dict do not change.
        """
        if self.weight.is_contiguous():
            self.weight.data = self.weight.data.t().contiguous().t()
        if self.weight.t().is_contiguous():  # else it is part of a joined matrix
            self._packed = Packed.of(self.weight.detach(), self.weight)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> "FastLinear":
        self._packed = None
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self
