"""Hook points: see any tensor of a forward pass, or replace it, without registering anything.

A `HookPoint` is an identity module where a tensor is worth seeing. Its name is its path in the
module tree: `decoder.blocks.0.cross_attn.hook_pattern`. In a block of code under
`visiting(visitor)`, those that the visitor asks for hand it the tensor and go on with its answer.

The visitor lives in a `ContextVar`, so it belongs to one thread (or task): a model that many share
never collects anybody else's tensors, and nothing is left behind after an error. torch's own
forward hooks fail at exactly that, since they belong to the module.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

from torch import Tensor, nn

from models.rows import Stream


@runtime_checkable
class Visitor(Protocol):
    """What `visiting` takes: says which hook points it wants and is called at each of them."""

    def wants(self, name: str) -> bool:
        """True when the tensor at the hook point `name` is to be handed over."""

    def __call__(self, name: str, tensor: Tensor) -> Tensor | None:
        """See one tensor. None keeps it; a tensor of the same shape and dtype replaces it."""


VISITOR: ContextVar[Visitor | None] = ContextVar("visitor", default=None)


@contextmanager
def visiting(visitor: Visitor) -> Iterator[None]:
    """Let `visitor`, and no outer one, see every wanted tensor of the passes made in this block."""
    token = VISITOR.set(visitor)
    try:
        yield
    finally:
        VISITOR.reset(token)


class HookPoint(nn.Module):
    """An identity with a name. `name_hook_points` sets the name once the model is built."""

    name: str = ""

    def forward(self, tensor: Tensor) -> Tensor:
        """The tensor or what the visitor replaces it by. ValueError for another shape or dtype."""
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
    """Give every hook point below `model` its path in the module tree as its name."""
    for name, module in model.named_modules():
        if isinstance(module, HookPoint):
            module.name = name


Change = Callable[[Tensor], Tensor]  # the tensor of a hook point -> its replacement


class Edits:
    """A visitor that replaces: `functions[name]` gets the tensor and returns its replacement."""

    def __init__(self, functions: Mapping[str, Change]) -> None:
        self.functions = dict(functions)

    def then(self, other: "Edits") -> "Edits":
        """Both edits as one. Where they change the same hook point, `other` gets what this left."""
        both = dict(self.functions)
        for name, change in other.functions.items():
            both[name] = _in_turn(both[name], change) if name in both else change
        return Edits(both)

    def wants(self, name: str) -> bool:
        return name in self.functions

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        return self.functions[name](tensor)


def _in_turn(first: Change, second: Change) -> Change:
    return lambda tensor: second(first(tensor))


NO_EDITS = Edits({})


class Record:
    """A visitor that keeps: every wanted tensor, detached and copied, in `activations[name]`.

    `edits` are applied first, so what is kept is what the model went on with, the last time.
    """

    def __init__(self, wants: Callable[[str], bool], edits: Edits = NO_EDITS) -> None:
        self._wants = wants
        self._edits = edits
        self.activations: dict[str, Tensor] = {}

    def wants(self, name: str) -> bool:
        return self._wants(name) or self._edits.wants(name)

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        if self._edits.wants(name):
            tensor = self._edits(name, tensor)
        if self._wants(name):
            self.activations[name] = self.copied(tensor.detach())
        return tensor

    def copied(self, tensor: Tensor) -> Tensor:
        """What is kept of a tensor: no later in-place change of the model's may reach it."""
        return tensor.clone()


LOGITS = "hook_logits"  # the hook point of the logits, which every model has at its top

Role = Literal["encoder", "decoder", "cross"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True)
class StackSite:
    """One stack of blocks of a model, by which all that is in it is found.

    `name` is its path in the module tree ("" for a model that is one stack); the self-attention of
    an encoder looks both ways. `reads_too` are the streams that its cross-attention looks at.
    """

    name: str
    role: Literal["encoder", "decoder"]
    stream: Stream
    n_layers: int
    reads_too: tuple[Stream, ...] = ()

    def path(self, *parts: str | int) -> str:
        """The path of something inside: `path("blocks", 0)` is "encoder.blocks.0"."""
        return ".".join(map(str, ((self.name, *parts) if self.name else parts)))

    def hook(self, what: str) -> str:
        """The full name of one of the stack's own hook points, as `hook("embed")`."""
        return self.path(f"hook_{what}")

    def block_hook(self, layer: int, what: str, *inside: Literal["attn", "ffn"]) -> str:
        """The full name of a hook point of one block, as `block_hook(0, "resid_post")`, or of what
        is inside it, as `block_hook(0, "pattern", "attn")`."""
        return self.path("blocks", layer, *inside, f"hook_{what}")


@dataclass(frozen=True)
class AttentionSite:
    """One attention sublayer of a model, and all that menus, labels and titles need to know of it.

    `name` is the sublayer's path, `block` its block's; `hook`, `block_hook` name what is in them.
    """

    name: str
    block: str
    stack: Literal["encoder", "decoder"]
    layer: int
    kind: Literal["self", "cross"]
    query_stream: Stream
    key_stream: Stream
    n_heads: int
    window: int | None = None  # how many tokens back its masks let it see; None: all

    @property
    def role(self) -> Role:
        """Encoder self-attention, decoder self-attention or cross-attention."""
        return "cross" if self.kind == "cross" else self.stack

    def hook(self, what: str) -> str:
        """The full name of one of this site's hook points, for example `hook("pattern")`."""
        return f"{self.name}.hook_{what}"

    def block_hook(self, what: str) -> str:
        """The full name of a hook point of the site's block, as `block_hook("resid_pre")`."""
        return f"{self.block}.hook_{what}"
