"""The device and dtype of an opened model: by default the CPU and float32.

For callers, every model takes rows on the CPU, and its hook points and logits are float32 tensors
on the CPU, so no caller depends on the device or dtype.
"""

import copy
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from models.fast import FastHookPoint
from models.hooks import HookPoint
from models.refusals import Refusal
from models.rows import Rows
from models.transformer import Model

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
DEVICES = ("cpu", "cuda")
DTYPE_VARIABLE, DEVICE_VARIABLE = "HEADLIGHT_DTYPE", "HEADLIGHT_DEVICE"
HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Placing:
    """A device and a dtype; None: float32, unless only the half precision in which the weights are
    stored fits into the device's memory.

    Raises ValueError for an unknown name, or for a GPU if torch finds none.
    """

    device: str = "cpu"
    dtype: str | None = None

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise Refusal("device", value=repr(self.device))
        if self.dtype is not None and self.dtype not in DTYPES:
            known = ", ".join(DTYPES)
            raise Refusal("one_of", name="dtype", value=repr(self.dtype), allowed=known)
        if self.device == "cuda" and not torch.cuda.is_available():
            raise Refusal("no_gpu")

    @classmethod
    def asked(cls, device: str | None = None, dtype: str | None = None) -> "Placing":
        """The given device and dtype, with HEADLIGHT_DEVICE and HEADLIGHT_DTYPE as defaults."""
        of_environment = os.environ.get(DEVICE_VARIABLE), os.environ.get(DTYPE_VARIABLE)
        return cls(device or of_environment[0] or "cpu", dtype or of_environment[1] or None)

    @property
    def memory(self) -> int:
        """Total memory of the device in bytes."""
        if self.device == "cuda":
            return torch.cuda.get_device_properties(0).total_memory
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def dtype_for(self, n_parameters: int, stored: torch.dtype | None = None) -> torch.dtype:
        """The dtype for a model of this size; `stored` is the half-precision dtype of its file.

        Raises ValueError if the model does not fit into memory.
        """
        dtype = DTYPES[self.dtype or "float32"]
        if self.dtype is None and stored in HALVES and 4 * n_parameters > self.memory:
            dtype = stored
        if (needed := dtype.itemsize * n_parameters) > self.memory:
            size, memory, half = (f"{n / 1e9:.1f}" for n in (needed, self.memory, needed / 2))
            kind = dtype_name(dtype)
            where = Refusal("this_machine") if self.device == "cpu" else Refusal("the_gpu")
            if dtype.itemsize == 2:
                raise Refusal("too_large", needed=size, dtype=kind, where=where, memory=memory)
            raise Refusal(
                "too_large_whole", needed=size, dtype=kind, where=where, memory=memory, half=half
            )
        return dtype


USUAL = Placing()


def dtype_name(dtype: torch.dtype) -> str:
    """ "bfloat16" for torch.bfloat16."""
    return str(dtype).removeprefix("torch.")


def outside(tensor: Tensor) -> Tensor:
    """A tensor as callers see it: on the CPU, half precision converted to float32."""
    tensor = tensor.cpu()
    return tensor.float() if tensor.dtype in HALVES else tensor


def inside(model: nn.Module, tensor: Tensor) -> Tensor:
    """A tensor converted to the device and dtype of a model."""
    parameter = next(model.parameters())
    return tensor.to(parameter.device, parameter.dtype)


class PlacedHookPoint(FastHookPoint):
    """A hook point whose visitor reads and edits the tensor on the CPU in float32."""

    def forward(self, tensor: Tensor) -> Tensor:
        if not self.wanted:
            return tensor
        shown = outside(tensor)
        seen = super().forward(shown)
        if seen is shown and not shown.requires_grad:
            return tensor
        return seen.to(tensor.device, tensor.dtype)  # also if gradients are needed


if TYPE_CHECKING:
    _Base = Model
else:
    _Base = object


class _Placed(_Base):
    """Mixin for a family's model that converts inputs and outputs between devices."""

    def read(self, rows: Rows, *rest: Any, **more: Any) -> Tensor:
        return super().read(rows.to(next(self.parameters()).device), *rest, **more)

    def logits_of(self, x: Tensor) -> Tensor:
        return outside(super().logits_of(x))

    def memory_of(self, rows: Rows) -> Tensor | None:
        return super().memory_of(rows.to(next(self.parameters()).device))


def place(model: Model, placing: Placing, dtype: torch.dtype) -> None:
    """Move a built model in place; inputs, outputs and hook points remain on the CPU."""
    model.to(placing.device, dtype)
    if placing.device == "cpu" and dtype == torch.float32:
        return
    for module in model.modules():
        if isinstance(module, HookPoint):
            module.__class__ = PlacedHookPoint
    family = type(model)
    model.__class__ = type(family.__name__, (_Placed, family), {})


def shown(module: nn.Module) -> nn.Module:
    """A module with float32 weights on the CPU: the module itself, or a converted copy."""
    parameters = list(module.parameters())
    if all(
        parameter.device.type == "cpu" and parameter.dtype not in HALVES for parameter in parameters
    ):
        return module
    return copy.deepcopy(module).to("cpu", torch.float32)
