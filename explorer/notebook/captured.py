"""The attention calls that `capture` recorded, with their display in a notebook and exports."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from explorer.notebook.axes import AxisReading, Why


@dataclass(frozen=True, eq=False)
class Attention:
    """One attention call.

    `name` is the path of the calling module (its class name for the outermost one). `pattern` is
    float32 [batch, head, query, key], before dropout. `mask` is Bool and broadcastable to it, True
    = may attend; None if no mask was applied. In plain code the mask is inferred from scores of
    -inf before the softmax, or of -5,000 or less that lie apart from the others. `fill` is the
    largest number that masks a score (set in the scores or added to them); None if there is none.
    `scores`, of the pattern's shape, are masked; `certify` alone records them. `query` and `key`
    are [batch, head, pos, d_head], for plain code as it multiplies them, and also recorded by
    `certify` alone. All tensors are detached and on the module's device. `axes` says why batch and
    head are read as they are; if it is "doubtful", the first axis may hold heads, sequences or
    both, and `with_heads` divides it.
    """

    name: str
    pattern: Tensor = field(repr=False)
    mask: Tensor | None = field(default=None, repr=False)
    query: Tensor | None = field(default=None, repr=False)
    key: Tensor | None = field(default=None, repr=False)
    fill: float | None = field(default=None, repr=False)
    axes: Why = "kernel"
    scores: Tensor | None = field(default=None, repr=False)

    def with_heads(self, heads: int) -> "Attention":
        """The call with its first axis divided into sequences of `heads` heads each.

        Calls whose axes are known stay as they are. Raises ValueError if it cannot be divided.
        """
        if self.axes != "doubtful":
            return self
        size = len(self.pattern)
        if heads < 1 or size % heads:
            raise ValueError(f"heads={heads}: the first axis of {self.name} has {size} entries")
        return self.laid(AxisReading(size // heads, heads, "order"))

    def laid(self, axes: AxisReading) -> "Attention":
        """The call with [batch, head] as the leading axes of all its tensors."""
        leading = self.pattern.shape[:-2]
        tensors: dict[str, Any] = {
            name: axes.lay(tensor.expand(*leading, *tensor.shape[-2:]))
            for name, tensor in vars(self).items()
            if isinstance(tensor, Tensor)
        }
        return replace(self, axes=axes.why, **tensors)


def _each(name: str) -> property:
    """One field of every call."""
    return property(lambda seen: [getattr(call, name) for call in seen.calls])


class Captured:
    """Result of `capture`: `calls` in order, and `unseen`, the modules and functions that may
    compute attention but whose pattern could not be recorded. `others` are the softmaxes that are
    no attention, such as one over features or a vocabulary.

    `patterns`, `masks`, `queries` and `keys` list one field of every call.
    """

    def __init__(self) -> None:
        self.calls: list[Attention] = []
        self.unseen: list[str] = []
        self.others: list[str] = []

    def __len__(self) -> int:
        return len(self.calls)

    def __iter__(self) -> Iterator[Attention]:
        return iter(self.calls)

    def __getitem__(self, name: str | int) -> Attention:
        """A call by index, or the first call of a module by its path.

        Raises IndexError or KeyError if there is none.
        """
        if isinstance(name, int):
            return self.calls[name]
        for call in self.calls:
            if call.name == name:
                return call
        seen = ", ".join(self.names) or "none"
        raise KeyError(f"no attention was captured in {name!r}; captured: {seen}")

    @property
    def names(self) -> list[str]:
        return [call.name for call in self.calls]

    patterns, masks, queries, keys = map(_each, ("pattern", "mask", "query", "key"))

    def _repr_html_(self) -> str:
        import explorer  # its `show` accepts this class

        if not self.calls:
            return f"<pre>{escape(repr(self))}</pre>"
        return str(explorer.show(self)._repr_html_())

    def __repr__(self) -> str:
        seen = ", ".join(f"{c.name} {list(c.pattern.shape)}" for c in self.calls) or "none"
        unseen = f"; unseen: {', '.join(self.unseen)}" if self.unseen else ""
        return f"<Captured: {seen}{unseen}>"


def kind_of(name: str) -> str:
    """The path of a module without the numbers of layers; a digit in a word is none."""
    return re.sub(r"(?<![^.])\d+(?![^.])", "#", name)


def calls_of_steps(calls: Sequence[Attention]) -> list[Attention]:
    """The calls, with those of a cached decoding joined: one call per module, a row per token.

    The steps of a module read its cache: each has as many keys as tokens came before it and in it
    (self-attention), or all the same keys (cross-attention, if the self-attention shows as many
    steps). Other calls stay as they are.
    """
    by_name: dict[str, list[Attention]] = {}
    for call in calls:
        by_name.setdefault(call.name, []).append(call)
    n_steps = {len(steps) for steps in by_name.values() if _grows(steps)}
    return [
        call
        for steps in by_name.values()
        for call in (
            [_joined(steps)]
            if _grows(steps) or (len(steps) in n_steps and _same_keys(steps))
            else steps
        )
    ]


def _grows(steps: Sequence[Attention]) -> bool:
    lengths = accumulate(step.pattern.shape[-2] for step in steps)
    alike = len({step.pattern.shape[:2] for step in steps}) == 1
    return (
        len(steps) > 1
        and alike
        and all(step.pattern.shape[-1] == n for step, n in zip(steps, lengths, strict=True))
    )


def _same_keys(steps: Sequence[Attention]) -> bool:
    return len({(*step.pattern.shape[:2], step.pattern.shape[-1]) for step in steps}) == 1


def _joined(steps: Sequence[Attention]) -> Attention:
    n_key = steps[-1].pattern.shape[-1]
    rows = [F.pad(step.pattern, (0, n_key - step.pattern.shape[-1])) for step in steps]
    masks = [
        F.pad(
            torch.ones_like(step.pattern, dtype=torch.bool)
            if step.mask is None
            else step.mask.expand(step.pattern.shape),
            (0, n_key - step.pattern.shape[-1]),
        )
        for step in steps
    ]
    fills = [step.fill for step in steps if step.fill is not None]
    pattern, mask = torch.cat(rows, -2), torch.cat(masks, -2)
    return Attention(
        steps[0].name, pattern, mask, fill=max(fills, default=None), axes=steps[0].axes
    )
