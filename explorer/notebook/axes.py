"""Which axes of a captured pattern are batch and head, and the evidence for it.

The last two axes of a pattern are queries and keys. A pattern with one more axis may hold heads,
sequences, or both in one axis, as `(b h) n d` does. The evidence is, in this order: the code's own
reshape, and the batch that the outermost module was given. Without any, the axes stay in doubt.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

Why = Literal["kernel", "equation", "reshape", "batch", "order", "doubtful"]
"""Why the axes are read as they are: by the definition of torch's function, by an einsum's
equation, by the code's own reshape, by the batch of the input, by their order alone, or not at all.
"""

_RESHAPES = ("reshape", "view", "flatten", "unflatten", "_unsafe_view")


@dataclass(frozen=True)
class AxisReading:
    """The leading axes of a pattern as [batch, head]; `heads_first` if they are [head, batch]."""

    batch: int
    heads: int
    why: Why
    heads_first: bool = False

    def lay(self, tensor: Tensor) -> Tensor:
        """[..., x, y] as [batch, head, x, y]."""
        last = tensor.shape[-2:]
        if self.heads_first:
            return tensor.reshape(self.heads, self.batch, *last).transpose(0, 1)
        return tensor.reshape(self.batch, self.heads, *last)


class Equation(NamedTuple):
    """The letters of an einsum that multiplies queries by keys: of both factors and the result."""

    left: str
    right: str
    result: str

    def order(
        self, shape: Sequence[int], lengths: Collection[int]
    ) -> tuple[tuple[int, ...], Why] | None:
        """The axes of a result of this shape as [leading …, query, key], and the evidence for it.

        The last axis, over which the softmax goes, are keys. The query is a letter that only the
        queries have; others are heads of a group. It is between the same shared letters as the key,
        as q in "bqgrd,bkgd". If several are, it is the one with the length of an input; otherwise
        the last, by order alone. None if there is no such letter.
        """
        key = self.result[-1]
        if (key in self.left) == (key in self.right):
            return None
        queries, keys = (self.right, self.left) if key in self.left else (self.left, self.right)
        own = [letter for letter in self.result if letter in queries and letter not in keys]
        if not own:
            return None
        place = _neighbours(key, keys, queries)
        fitting = [letter for letter in own if _neighbours(letter, queries, keys) == place] or own
        if len(fitting) > 1:
            long = [letter for letter in fitting if shape[self.result.index(letter)] in lengths]
            fitting = long if len(long) == 1 else fitting
        query = fitting[-1]
        leading = [letter for letter in self.result if letter not in (query, key)]
        order = tuple(self.result.index(letter) for letter in (*leading, query, key))
        return order, "equation" if len(fitting) == 1 else "order"

    def queries_and_keys(
        self, left: Tensor, right: Tensor, order: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """The factors as [..., pos, d_head], with the leading axes of a result in this order.

        An axis of one factor alone, as of the queries of a group, is 1 in the other.
        """
        *names, query, key = (self.result[at] for at in order)
        (feature,) = set(self.left) & set(self.right) - set(self.result)

        def laid(tensor: Tensor, letters: str) -> Tensor:
            shared = "".join(name for name in names if name in letters)
            place = key if key in letters else query
            tensor = torch.einsum(f"{letters}->{shared}{place}{feature}", tensor)
            return tensor[tuple(slice(None) if name in letters else None for name in names)]

        first, second = laid(left, self.left), laid(right, self.right)
        return (second, first) if key in self.left else (first, second)


def _neighbours(letter: str, factor: str, other: str) -> list[str]:
    """The letter's neighbours in a factor, among the letters that both factors have."""
    shared = ["", *(each for each in factor if each == letter or each in other), ""]
    at = shared.index(letter)
    return [shared[at - 1], shared[at + 1]]


class AxisEvidence:
    """What a forward pass reveals about its batch: its inputs, and reshapes of three and four axes.

    `sequences` is the size of the batch if the caller knows it.
    """

    def __init__(self) -> None:
        self.sequences: int | None = None
        self._inputs: list[tuple[tuple[int, ...], bool]] = []  # shape, and whether floating point
        self._folds: dict[int, tuple[int, int, bool]] = {}

    def begin(self, args: Iterable[Any]) -> None:
        """The outermost module starts with these arguments."""
        for arg in args:
            self._read_from(arg)

    def _read_from(self, given: Any) -> None:
        if isinstance(given, Tensor) and not given.is_nested and given.ndim:
            self._inputs.append((tuple(given.shape), given.is_floating_point()))

    @property
    def lengths(self) -> set[int]:
        """The sizes of the inputs' axes that may be positions."""
        axes = {
            size
            for shape, is_float in self._inputs
            if len(shape) < 4
            for size in shape[: 1 if is_float and len(shape) == 2 else 2]
        }
        return axes - {self.sequences}

    def end(self) -> None:
        self._inputs, self._folds = [], {}

    def follow(self, func: Callable[..., Any], args: Any, result: Tensor) -> None:
        """Note the ids that are embedded, an image that is read, and how axes are merged or split.

        Heads are merged with the batch, [batch, head, pos, d] to [batch · head, pos, d] or back;
        or split from the features, [pos, batch, d] to [pos, batch · head, d_head]; or the chunks of
        the features are concatenated along the batch.
        """
        source = args[0] if args else None
        if func in (F.embedding, F.conv2d):
            self._read_from(source)
        elif func in (torch.cat, torch.concat) and isinstance(source, list | tuple):
            if result.ndim == 3 and len({tuple(part.shape) for part in source}) == 1:
                n, size = len(source), len(source[0])
                if n > 1 and len(result) == n * size:
                    self._folds[len(result)] = n, size, True
        elif getattr(func, "__name__", "") in _RESHAPES and isinstance(source, Tensor):
            self._reshaped(tuple(source.shape), tuple(result.shape))

    def _reshaped(self, before: tuple[int, ...], after: tuple[int, ...]) -> None:
        for long, short in ((before, after), (after, before)):
            if len(long) == 4 and short == (long[0] * long[1], *long[2:]):
                self._folds[short[0]] = long[0], long[1], False
        if len(before) == len(after) == 3 and before[0] == after[0] and before[1] < after[1]:
            n_heads = after[1] // before[1]
            if after == (before[0], before[1] * n_heads, before[2] // n_heads):
                self._folds[after[1]] = before[1], n_heads, False

    def read(
        self, leading: tuple[int, ...], n_query: int, n_key: int, why: Why = "order"
    ) -> AxisReading:
        """The axes before queries and keys. `why` is the evidence for their order, if any."""
        batch = self._batch({n_query, n_key})
        if not leading:
            return AxisReading(1, 1, why)
        first, rest = leading[0], leading[1:]
        if rest:
            if len(leading) == 2 and batch == rest[0] != first:
                return AxisReading(rest[0], first, "batch", heads_first=True)
            is_batch = batch == first not in rest  # otherwise [head, batch] fits as well
            return AxisReading(first, prod(rest), "batch" if why == "order" and is_batch else why)
        fold = self._folds.get(first)
        if first > 1 and fold is not None:
            outer, inner, chunked = fold
            swapped = batch == inner != outer or (chunked and batch in (inner, None))
            return AxisReading(*((inner, outer) if swapped else (outer, inner)), "reshape", swapped)
        if first == 1 or batch == 1:
            return AxisReading(1, first, "batch" if batch else why)
        return AxisReading(first, 1, "batch" if batch == first else "doubtful")

    def _batch(self, lengths: set[int]) -> int | None:
        """The number of sequences that the outermost module was given; None if several fit."""
        if self.sequences is not None:
            return self.sequences
        sizes = {size for given in self._inputs for size in self._sizes(*given, lengths)}
        if len(sizes) > 1:
            sizes.discard(1)  # position ids that are broadcast
        return sizes.pop() if len(sizes) == 1 else None

    def _sizes(self, shape: tuple[int, ...], is_float: bool, lengths: set[int]) -> set[int]:
        """The possible batch sizes of an input, for attention over sequences of these lengths."""
        if len(shape) == 1 or (len(shape) == 2 and is_float):
            return {1} if shape[0] in lengths else {shape[0]}
        if len(shape) > 3:  # images
            return {shape[0]}
        return {shape[at] for at in (0, 1) if shape[1 - at] in lengths} or {shape[0]}
