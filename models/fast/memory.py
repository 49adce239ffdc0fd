"""Saving memory: a record that avoids copies, and models without storage (device "meta")."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from models.hooks import NO_EDITS, Edits, Record


class FastRecord(Record):
    """A record with minimal memory: tensors constant along an axis are copied once, and patterns
    not at all, since attention does not modify them afterwards. `patterns` is the dtype for
    patterns that no edit changes: float16 halves the memory and rounds by up to 1 / 4,096. The
    record does not change the numbers of the run itself."""

    def __init__(
        self,
        wants: Callable[[str], bool],
        edits: Edits = NO_EDITS,
        patterns: torch.dtype | None = None,
    ) -> None:
        super().__init__(wants, edits)
        self._patterns = patterns

    def dtype(self, name: str) -> torch.dtype | None:
        """The dtype in which the pattern `name` is stored; None (also if edited): unchanged."""
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
    """Skip random initialisation inside, for weights that are loaded from a file. Drawing takes
    longer than reading the file, and on device "meta" torch would import its compiler (5 s)."""

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
    """Modules built inside have shapes but no storage (torch's device "meta")."""
    with torch.device("meta"), Undrawn():
        yield
