"""Small composable functions that convert stored tensors of other libraries into parameters.

All of them also work on torch's `meta` device, so that shapes can be checked before a file is read.
Matrices are [out, in] unless stated otherwise.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

Fold = Callable[..., Tensor]
"""Takes the stored tensors of a row, in order, and returns the parameter."""


def as_is(tensor: Tensor) -> Tensor:
    """The tensor itself."""
    return tensor


def transposed(tensor: Tensor) -> Tensor:
    """A matrix that is stored as [in, out] (GPT-2's Conv1D); vectors are unchanged."""
    return tensor.t()


def composed(*folds: Fold) -> Fold:
    """The composition of folds, the first one applied first."""

    def fold(*tensors: Tensor) -> Tensor:
        tensor = folds[0](*tensors)
        for step in folds[1:]:
            tensor = step(tensor)
        return tensor

    return fold


def part(index: int, of: int) -> Fold:
    """One of `of` equal parts along the output axis: q, k or v of a fused matrix."""
    return lambda tensor: tensor.chunk(of)[index]


def part_of_heads(index: int, of: int, n_heads: int) -> Fold:
    """`part` for a fused matrix whose parts are interleaved per head: [head, part, d_head]
    (GPT-NeoX)."""

    def fold(tensor: Tensor) -> Tensor:
        by_head = tensor.reshape(n_heads, of, -1, *tensor.shape[1:])
        return by_head[:, index].flatten(0, 1)

    return fold


def neighbours(n_heads: int, turned: int | None = None) -> Fold:
    """Reorder output features so that rotated pairs are adjacent: (0, 1), (2, 3), …

    Stored pairs are (i, i + half); the result is the same if queries and keys are permuted alike.
    `turned` is the number of rotated features per head (None: all); the others remain after them.
    """

    def fold(tensor: Tensor) -> Tensor:
        heads = tensor.reshape(n_heads, -1, *tensor.shape[1:])
        n = heads.shape[1] if turned is None else turned
        pairs = (
            heads[:, :n]
            .reshape(n_heads, 2, n // 2, *tensor.shape[1:])
            .transpose(1, 2)
            .flatten(1, 2)
        )
        return torch.cat((pairs, heads[:, n:]), dim=1).flatten(0, 1)

    return fold


def turned_times(factor: float, n_heads: int, turned: int) -> Fold:
    """The first `turned` output features of each head times a constant."""

    def fold(tensor: Tensor) -> Tensor:
        heads = tensor.reshape(n_heads, -1, *tensor.shape[1:])
        return torch.cat((heads[:, :turned] * factor, heads[:, turned:]), dim=1).flatten(0, 1)

    return fold


def halves(n_heads: int, turned: int) -> Fold:
    """The inverse of `neighbours`."""

    def fold(tensor: Tensor) -> Tensor:
        heads = tensor.reshape(n_heads, -1, *tensor.shape[1:])
        first = heads[:, :turned]
        pairs = first.reshape(n_heads, -1, 2, *tensor.shape[1:])
        halved = pairs.transpose(1, 2).reshape(first.shape)
        return torch.cat((halved, heads[:, turned:]), dim=1).flatten(0, 1)

    return fold


def plus_one(tensor: Tensor) -> Tensor:
    """A norm's weight that is stored as its difference from 1 (Gemma)."""
    return tensor + 1


def times(factor: float) -> Fold:
    """A tensor times a constant."""
    return lambda tensor: tensor * factor


def first_row_added(tensor: Tensor, other: Tensor) -> Tensor:
    """Add row 0 of another table to every row: BERT's token type of the first text."""
    return tensor + other[0]


def less_first_row(tensor: Tensor) -> Tensor:
    """A table minus its row 0: what BERT's further token types add to that of the first text."""
    return tensor - tensor[0]


def without_first(n: int) -> Fold:
    """A table without its first `n` rows, which are not positions (RoBERTa)."""
    return lambda tensor: tensor[n:]


def only(row: int) -> Fold:
    """One row of a table."""
    return lambda tensor: tensor[row]


def zeros(*shape: int) -> Fold:
    """A zero parameter that is not stored: a bias that the other library does not have."""
    return lambda: torch.zeros(*shape)


def ones(*shape: int) -> Fold:
    """The weight of a norm without parameters."""
    return lambda: torch.ones(*shape)


def output_rows(first: int, end: int) -> Fold:
    """The output features `first` to `end` (exclusive) of a fused matrix."""
    return lambda tensor: tensor[first:end]


def side_by_side(dim: int) -> Fold:
    """Several tensors joined along one dimension: the matrices of all experts."""
    return lambda *tensors: torch.cat(tensors, dim)


def sines_then_cosines(
    n_positions: int, d_model: int, first: int = 0, steps: int | None = None
) -> Fold:
    """Marian's position table: sines in the first half of the columns, cosines in the second.

    Angles are (first + position) / 10000^(c / steps) for column c of either half; `steps` is half
    of d_model, or one less (tensor2tensor).
    """

    def fold() -> Tensor:
        columns = torch.arange(d_model // 2, dtype=torch.float64)
        scale = torch.exp(columns * (-math.log(10000.0) / (steps or d_model // 2)))
        angles = torch.arange(first, first + n_positions, dtype=torch.float64)[:, None] * scale
        return torch.cat((angles.sin(), angles.cos()), dim=1).float()

    return fold
