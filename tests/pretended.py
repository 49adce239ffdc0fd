"""A pretended GPU: tensors that say they are elsewhere, hold their numbers on the CPU, and refuse
to meet tensors of the CPU where CUDA's own would.

Inside `gpu()`, what is made on "cuda" or moved there is such a tensor. An operation wants all its
tensors there, but for what CUDA allows too: a tensor without axes may be of the CPU, and so may the
indices into a tensor that is there. numpy never sees one. It shows where devices are mixed and
nothing else of a GPU: not its rounding, its speed or its memory. They call their device "meta", the
only one that a torch without CUDA lets a tensor be on.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

HERE, THERE = torch.device("cpu"), torch.device("meta")


class There(Tensor):
    """A tensor on the pretended GPU; `numbers` are its own, on the CPU."""

    numbers: Tensor

    @staticmethod
    def __new__(cls, numbers: Tensor) -> "There":
        with torch.inference_mode(False):  # torch counts no versions of a wrapper made in it
            made: There = Tensor._make_wrapper_subclass(
                cls,
                numbers.shape,
                strides=numbers.stride(),
                storage_offset=numbers.storage_offset(),
                dtype=numbers.dtype,
                device=THERE,
                requires_grad=numbers.requires_grad,
            )
        made.numbers = numbers.detach()
        return made

    def __repr__(self, **_: object) -> str:
        return f"There({self.numbers})"

    @property
    def data(self) -> Tensor:
        return self.detach()

    @data.setter
    def data(self, value: "There") -> None:
        """Other numbers, perhaps in another order in memory."""
        Tensor.data.__set__(self, value)
        self.numbers = value.numbers

    def tolist(self) -> Any:
        return self.numbers.tolist()

    def numpy(self, **_: object) -> Any:
        raise TypeError("a tensor on the GPU cannot become an array: .cpu() first")

    def __array__(self, *_: object) -> Any:
        return self.numpy()

    @classmethod
    def __torch_dispatch__(
        cls,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        name = func._schema.name
        if name in ("aten::_to_copy", "aten::to"):  # the second in inference mode
            asked = [each for each in (*args, *named.values()) if isinstance(each, torch.device)]
            if asked == [HERE]:
                return func(args[0].numbers, *args[1:], **named)
        if name == "aten::copy_":  # the one that moves between devices
            target, source = args[0], args[1]
            func(_own(target), _own(source))
            return target
        flat, _ = tree_flatten((list(args), named))
        require_together(name, [each for each in flat if isinstance(each, Tensor)])
        if named.get("device") is not None:
            named["device"] = HERE
        made = func(*tree_map(_own, list(args)), **tree_map(_own, named))
        if func._schema.is_mutable:
            return (kwargs or {}).get("out", args[0])
        return tree_map(_moved, made)


def require_together(name: str, tensors: Sequence[Tensor]) -> None:
    """Raise RuntimeError unless CUDA would compute with these."""
    there = [each for each in tensors if isinstance(each, There)]
    if not there:
        return
    indexed = name in ("aten::index", "aten::index_put_", "aten::index_put")
    for each in tensors:
        if isinstance(each, There) or each.dim() == 0:
            continue
        if not (indexed and isinstance(tensors[0], There) and not each.is_floating_point()):
            raise RuntimeError(f"{name}: {len(there)} of {len(tensors)} tensors are on the GPU")


def _own(value: Any) -> Any:
    return value.numbers if isinstance(value, There) else value


def _moved(value: Any) -> Any:
    return There(value) if isinstance(value, Tensor) and not isinstance(value, There) else value


def _is_place(value: Any) -> bool:
    try:
        return value is not None and not isinstance(value, int) and bool(torch.device(value))
    except (TypeError, RuntimeError):
        return False


def _is_there(value: Any) -> bool:
    """Whether a device is the pretended one. Whoever writes "meta" means torch's own."""
    return value != "meta" and _is_place(value) and torch.device(value).type in ("cuda", "meta")


class _Going(torch.autograd.Function):
    """To the GPU; a gradient comes back."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return There(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return _own(gradients[0])


class _Coming(torch.autograd.Function):
    """From the GPU; a gradient goes there."""

    @staticmethod
    def forward(ctx: Any, tensor: There) -> Tensor:
        return tensor.numbers.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return There(gradients[0])


def _brought(value: Any) -> Any:
    """What is there as a tensor here, through which a gradient comes back."""
    return _Coming.apply(value) if isinstance(value, There) else value


class _Making(TorchFunctionMode):
    """Makes tensors there, and moves them, before torch looks for a driver."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in ("to", "cpu", "cuda") and args and isinstance(args[0], Tensor):
            given = (*args[1:], *named.values())
            there = name == "cuda" or any(map(_is_there, given))
            here = name == "cpu" or (not there and any(map(_is_place, given)))
            dtypes = [each for each in given if isinstance(each, torch.dtype)]
            moved = args[0].to(*dtypes) if dtypes else args[0]
            if not there and not here:
                return func(*args, **named)
            if there and not isinstance(moved, There):
                return _Going.apply(moved)
            return _Coming.apply(moved) if here and isinstance(moved, There) else moved
        if name in ("new_tensor", "new_full", "new_zeros", "new_ones", "new_empty") and isinstance(
            args[0], There
        ):
            return There(getattr(args[0].numbers, name)(*args[1:], **named))
        if name == "scaled_dot_product_attention":  # whose parts torch makes on "meta" itself
            given = [each for each in (*args, *named.values()) if isinstance(each, Tensor)]
            require_together(name, given)
            here, more = map(_brought, args), {key: _brought(each) for key, each in named.items()}
            found = func(*here, **more)
            return _Going.apply(found) if isinstance(args[0], There) else found
        if name == "__getitem__" and isinstance(args[0], There):
            place = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(isinstance(each, list) for each in place):  # torch would make them on "meta"
                at = [each for each in place if isinstance(each, Tensor)]
                require_together("aten::index", [args[0], *at])
                return _Going.apply(_Coming.apply(args[0])[tuple(map(_own, place))])
        if name == "__setitem__" and isinstance(args[0], There):
            place, value = args[1:]
            at = [each for each in tree_flatten(place)[0] if isinstance(each, Tensor)]
            require_together("aten::index_put_", [args[0], *at])
            if isinstance(value, Tensor):
                require_together("aten::copy_to", [args[0], value])
            args[0].numbers[tree_map(_own, place)] = _own(value)
            return None
        if _is_there(named.get("device")):
            if any(isinstance(each, There) for each in args):  # as_tensor, zeros_like
                named.pop("device")
                return func(*args, **named)
            return There(func(*args, **{**named, "device": HERE}))
        return func(*args, **named)


@contextmanager
def gpu() -> Iterator[None]:
    """Inside, in every thread that is started there, tensors on "cuda" are pretended ones."""
    plain = threading.Thread.run

    def run(thread: threading.Thread) -> None:
        with _Making():
            plain(thread)

    plain_to = torch.nn.Module.to

    def to(module: torch.nn.Module, *where: Any) -> torch.nn.Module:
        """Parameters become other objects here, which CUDA's do not: the same one for a tie."""
        if not any(map(_is_place, where)):
            return plain_to(module, *where)
        made: dict[int, torch.nn.Parameter] = {}
        for part in module.modules():
            for name, each in part._parameters.items():
                if each is not None:
                    if id(each) not in made:
                        moved = each.detach().to(*where)
                        made[id(each)] = torch.nn.Parameter(moved, each.requires_grad)
                    part._parameters[name] = made[id(each)]
        return module

    with pytest.MonkeyPatch.context() as patch, _Making():
        patch.setattr(threading.Thread, "run", run)
        patch.setattr(torch.nn.Module, "to", to)
        patch.setattr(torch.cuda, "is_available", lambda: True)
        # A torch that is built for CUDA would ask the driver for its streams.
        patch.setattr(torch.accelerator, "current_accelerator", lambda *_, **__: None)
        patch.setattr(
            torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=2**40)
        )
        yield
