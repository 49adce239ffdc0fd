"""A linear map that also knows its matrix by rows, for the four rows of a beam.

`models.layout` stores widening maps by columns, since one token multiplies them soonest that way.
Four tokens do not: BLAS first copies what it reads into another order, and gets no further than 6
GB/s, where W x^T on a matrix stored by rows reads 9 to 11. Measured on one core, four tokens: 2,048
x 512 takes 0.46 ms in place of 0.71, 512 x 512 0.11 in place of 0.15, 8,000 x 512 1.5 in place of
2.1. For two, three, six or eight tokens it is no gain.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

FEW = 4  # rows for which the product with the matrix by rows is the sooner one


class NotCopied:
    """What stands beside parameters for speed only; a copy of their module starts without it."""

    def __deepcopy__(self, memo: object) -> None:
        """None: the copied parameters lie elsewhere in memory, and their counters start anew."""


@dataclass(frozen=True, eq=False)
class RowCopy(NotCopied):
    """A matrix [out, in] stored by rows, and the parameters that it was taken from.

    Where it is a copy it must not outlive a change of theirs: `current` compares the counters that
    torch advances whenever a tensor is written to.
    """

    matrix: Tensor
    sources: tuple[Tensor, ...]
    versions: tuple[int, ...]

    @classmethod
    def of(cls, matrix: Tensor, *sources: Tensor) -> "RowCopy":
        """`matrix` by rows: itself where it is stored so, else a copy."""
        return cls(matrix.contiguous(), sources, tuple(source._version for source in sources))

    @property
    def current(self) -> bool:
        """False once a source was written to."""
        return all(
            source._version == version
            for source, version in zip(self.sources, self.versions, strict=True)
        )


@dataclass(frozen=True, eq=False)
class Joined(NotCopied):
    """Several maps of one input as one: their matrices share its memory, in order."""

    weight: Tensor
    bias: Tensor | None
    by_rows: RowCopy


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, by_rows: RowCopy | None) -> Tensor:
    """x W^T + b over the last axis: x [..., in], weight [out, in], bias [out] -> [..., out].

    `by_rows` is the same matrix again, read where that is sooner: without gradients, which have to
    reach the parameter itself, and for FEW rows.
    """
    if (
        by_rows is None
        or x.numel() != FEW * x.shape[-1]
        or torch.is_grad_enabled()
        or not by_rows.current
    ):
        return nn.functional.linear(x, weight, bias)
    columns = x.reshape(FEW, -1).t()
    if bias is None:
        out = by_rows.matrix @ columns  # [out, row]
    else:
        out = torch.addmm(bias[:, None], by_rows.matrix, columns)
    return out.t().contiguous().view(*x.shape[:-1], -1)


class Linear(nn.Linear):
    """`nn.Linear`, which can be laid out for decoding."""

    _by_rows: RowCopy | None = None

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias, self._by_rows)

    def lay_out(self) -> None:
        """Store a widening map by columns, and keep it by rows too. Moving it forgets the second.

        Shapes, values and the state dict stay as they are.
        """
        widening = self.out_features > self.in_features
        if widening:
            self.weight.data = self.weight.data.t().contiguous().t()
        if widening or self.weight.is_contiguous():  # else it is a part of a joined matrix
            self._by_rows = RowCopy.of(self.weight.detach(), self.weight)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> "Linear":
        self._by_rows = None
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self
