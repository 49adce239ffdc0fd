"""What spares memory: a record that copies nothing twice, and models without numbers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from models.hooks import NO_EDITS, Edits, Record


class FastRecord(Record):
    """A record that takes the least room: what is alike along an axis is copied once, and a pattern
    not at all, since attention makes it for the record and changes it no more. With `patterns`, a
    dtype, those that no edit changes are kept in that: float16 takes half the memory, and rounds by
    up to 1 / 4,096. The run itself goes on with the numbers that it would have without a record.
    """

    def __init__(
        self,
        wants: Callable[[str], bool],
        edits: Edits = NO_EDITS,
        patterns: torch.dtype | None = None,
    ) -> None:
        super().__init__(wants, edits)
        self._patterns = patterns

    def dtype(self, name: str) -> torch.dtype | None:
        """In which dtype the pattern `name` is kept; None: in its own, as where it is edited."""
        return None if self._edits.wants(name) else self._patterns

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        if not name.endswith("hook_pattern") or self._edits.wants(name):
            return super().__call__(name, tensor)
        self.activations[name] = tensor.detach().to(self._patterns or tensor.dtype)
        return tensor

    def copied(self, tensor: Tensor) -> Tensor:
        if 0 not in tensor.stride():
            return super().copied(tensor)
        once = tuple(slice(0, 1 if step == 0 else None) for step in tensor.stride())
        return tensor[once].clone().expand(tensor.shape)


_DRAWN = frozenset({"normal_", "uniform_", "kaiming_uniform_"})


class Undrawn(TorchFunctionMode):
    """Inside, initial weights are not drawn: a file's take their place. To draw them takes longer
    than to read that file; and without storage, torch would import its compiler for it (5 s).
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if getattr(func, "__name__", "") in _DRAWN:  # of torch.nn.init, or a tensor's own
            return args[0] if args else named["tensor"]
        return func(*args, **named)


@contextmanager
def without_numbers() -> Iterator[None]:
    """Whatever is built inside has shapes and no numbers (torch's device "meta")."""
    with torch.device("meta"), Undrawn():
        yield
