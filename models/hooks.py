"""Hook points: read or replace any tensor of a forward pass, without registering hooks.

A `HookPoint` is an identity module at a tensor of interest. Its name is its path in the module
tree: `decoder.blocks.0.cross_attn.hook_pattern`. Inside `visiting(visitor)`, every hook point that
the visitor wants passes it the tensor and continues with the returned one.

The visitor is stored in a `ContextVar`, so it applies to one thread (or task): sessions that share
a model never see each other's tensors, and no hook remains after an error. torch's own forward
hooks do not provide this, since they belong to the module.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

import torch
from torch import Tensor, nn

from models.rows import Stream


@runtime_checkable
class Visitor(Protocol):
    """The argument of `visiting`: selects hook points and is called at each of them."""

    def wants(self, name: str) -> bool:
        """Whether to call this visitor at the hook point `name`."""

    def __call__(self, name: str, tensor: Tensor) -> Tensor | None:
        """Receive one tensor. Return None to keep it, or a replacement of equal shape and dtype."""


VISITOR: ContextVar[Visitor | None] = ContextVar("visitor", default=None)


@contextmanager
def visiting(visitor: Visitor) -> Iterator[None]:
    """Call `visitor`, and no outer one, at its hook points in all passes inside this block."""
    token = VISITOR.set(visitor)
    try:
        yield
    finally:
        VISITOR.reset(token)


class HookPoint(nn.Module):
    """A named identity module. `name_hook_points` sets the name after the model is built."""

    name: str = ""

    def forward(self, tensor: Tensor) -> Tensor:
        """The tensor or its replacement. Raises ValueError if the shape or dtype differs."""
        visitor = VISITOR.get()
        if visitor is None or not visitor.wants(self.name):
            return tensor
        replacement = visitor(self.name, tensor)
        if replacement is None:
            return tensor
        if replacement.shape != tensor.shape or replacement.dtype != tensor.dtype:
            raise ValueError(
                f"{self.name}: a replacement must be {tensor.dtype} {tuple(tensor.shape)}, "
                f"not {replacement.dtype} {tuple(replacement.shape)}"
            )
        return replacement


def name_hook_points(model: nn.Module) -> None:
    """Set the name of every hook point in `model` to its path in the module tree."""
    for name, module in model.named_modules():
        if isinstance(module, HookPoint):
            module.name = name


Change = Callable[[Tensor], Tensor]  # the tensor of a hook point -> its replacement


class Edits:
    """A visitor that edits: `functions[name]` maps a hook point's tensor to its replacement."""

    def __init__(self, functions: Mapping[str, Change]) -> None:
        self.functions = dict(functions)

    def then(self, other: "Edits") -> "Edits":
        """The composition of both edits; at shared hook points, `other` is applied second."""
        both = dict(self.functions)
        for name, change in other.functions.items():
            both[name] = _composed(both[name], change) if name in both else change
        return Edits(both)

    def wants(self, name: str) -> bool:
        return name in self.functions

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        return self.functions[name](tensor)


def _composed(first: Change, second: Change) -> Change:
    return lambda tensor: second(first(tensor))


NO_EDITS = Edits({})


class Record:
    """A visitor that records every wanted tensor, detached, in `activations[name]`.

    `edits` are applied first, so the edited tensor is recorded. Later calls overwrite earlier ones.
    Tensors are copied, once if constant along an axis, as a mask shared by all heads is. Patterns
    are copied only if edited, since attention does not modify them afterwards. `patterns` is the
    dtype for those: float16 halves the memory and rounds by up to 1 / 4,096.
    """

    def __init__(
        self,
        wants: Callable[[str], bool],
        edits: Edits = NO_EDITS,
        patterns: torch.dtype | None = None,
    ) -> None:
        self._wants, self._edits, self._patterns = wants, edits, patterns
        self.activations: dict[str, Tensor] = {}

    def dtype(self, name: str) -> torch.dtype | None:
        """The dtype in which the pattern `name` is stored; None (also if edited): unchanged."""
        return None if self._edits.wants(name) else self._patterns

    def wants(self, name: str) -> bool:
        return self._wants(name) or self._edits.wants(name)

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        is_edited = self._edits.wants(name)
        if is_edited:
            tensor = self._edits(name, tensor)
        if not self._wants(name):
            return tensor
        if name.endswith("hook_pattern") and not is_edited:
            self.activations[name] = tensor.detach().to(self._patterns or tensor.dtype)
            return tensor
        kept = tensor.detach()
        if 0 in kept.stride():
            once = tuple(slice(0, 1 if step == 0 else None) for step in kept.stride())
            kept = kept[once]
        self.activations[name] = kept.clone().expand(tensor.shape)
        return tensor


LOGITS = "hook_logits"  # the hook point of the logits in every model

Role = Literal["encoder", "decoder", "cross"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True)
class StackSite:
    """One stack of blocks of a model, with the paths of its parts.

    `name` is its path in the module tree ("" for a model that is itself the stack); an encoder's
    self-attention is bidirectional. `reads_too` are the sequences read by its cross-attention.
    """

    name: str
    role: Literal["encoder", "decoder"]
    stream: Stream
    n_layers: int
    reads_too: tuple[Stream, ...] = ()

    def path(self, *parts: str | int) -> str:
        """The path of a part: `path("blocks", 0)` is "encoder.blocks.0"."""
        return ".".join(map(str, ((self.name, *parts) if self.name else parts)))

    def hook(self, what: str) -> str:
        """The full name of one of the stack's own hook points, e.g. `hook("embed")`."""
        return self.path(f"hook_{what}")

    def block_hook(self, layer: int, what: str, *inside: Literal["attn", "ffn"]) -> str:
        """The full name of a hook point of a block, e.g. `block_hook(0, "resid_post")`, or of one
        of its sublayers, e.g. `block_hook(0, "pattern", "attn")`."""
        return self.path("blocks", layer, *inside, f"hook_{what}")


@dataclass(frozen=True)
class AttentionSite:
    """One attention sublayer of a model, with everything that menus, labels and titles need.

    `name` and `block` are the paths of the sublayer and its block; `hook` and `block_hook` give the
    names of their hook points.
    """

    name: str
    block: str
    stack: Literal["encoder", "decoder"]
    layer: int
    kind: Literal["self", "cross"]
    query_stream: Stream
    key_stream: Stream
    n_heads: int
    window: int | None = None  # sliding window in tokens; None: no window

    @property
    def role(self) -> Role:
        """Encoder self-attention, decoder self-attention or cross-attention."""
        return "cross" if self.kind == "cross" else self.stack

    def hook(self, what: str) -> str:
        """The full name of one of this site's hook points, for example `hook("pattern")`."""
        return f"{self.name}.hook_{what}"

    def block_hook(self, what: str) -> str:
        """The full name of a hook point of the site's block, e.g. `block_hook("resid_pre")`."""
        return f"{self.block}.hook_{what}"
