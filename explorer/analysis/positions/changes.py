"""Positions changed under a run: taken away, shifted, two of them swapped, counted from the end.

A change says which position each token of one stream is told. Where a model adds a vector
(sinusoidal, learned) it acts at `hook_pos_embed`; where it turns queries and keys (rotary) they are
turned further at `hook_q` and `hook_k`, since two turns add up. The model itself is never touched.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import torch
from jaxtyping import Int
from torch import Tensor

from explorer.library import LoadedModel
from models.hooks import Stream
from models.positions import Positions, rotate
from models.transformer import EncoderDecoder, Stack

ChangeKind = Literal["remove", "shift", "swap", "reverse"]
CHANGE_KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)
MOST_SHIFT = 512
_TEXT = re.compile(r"(remove|reverse)|(shift)-([0-9]{1,3})|(swap)-([0-9]{1,3})-([0-9]{1,3})")


@dataclass(frozen=True)
class Change:
    """One change of positions. `first` is the shift, or the first of two swapped positions.

    remove: no token is told its position. shift: everybody stands `first` positions later.
    swap: `first` and `second` are told each other's. reverse: the last is told that it is first.
    """

    kind: ChangeKind
    first: int = 0
    second: int = 0


REMOVE = Change("remove")


def format_change(change: Change) -> str:
    """The change as text for a link: `remove`, `reverse`, `shift-20`, `swap-1-3`."""
    match change.kind:
        case "shift":
            return f"shift-{change.first}"
        case "swap":
            return f"swap-{change.first}-{change.second}"
    return change.kind


def parse_change(text: str) -> Change:
    """What `format_change` wrote. Raises ValueError for anything else, and for a long shift."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError(f"no change of positions: {text!r}")
    if found[2]:
        if int(found[3]) > MOST_SHIFT:
            raise ValueError(f"a shift of {found[3]}: the longest is {MOST_SHIFT}")
        return Change("shift", int(found[3]))
    if found[4]:
        return Change("swap", int(found[5]), int(found[6]))
    return REMOVE if found[1] == "remove" else Change("reverse")


def told_positions(change: Change, n: int) -> Int[Tensor, " pos"] | None:
    """The position that each of `n` tokens is told; None: none is told any.

    A swap that names a token beyond the row leaves the row alone.
    """
    usual = torch.arange(n)
    match change.kind:
        case "remove":
            return None
        case "shift":
            return usual + change.first
        case "reverse":
            return usual.flip(0)
    if max(change.first, change.second) < n:
        usual[[change.first, change.second]] = usual[[change.second, change.first]]
    return usual


def stack_of(loaded: LoadedModel, stream: Stream) -> Stack | None:
    """The part of a model that reads a stream; None for the source of a decoder-only model."""
    if isinstance(loaded.model, EncoderDecoder):
        return loaded.model.encoder if stream == "src" else loaded.model.decoder
    return None if stream == "src" else loaded.model


def position_functions(
    loaded: LoadedModel, stream: Stream, change: Change
) -> dict[str, Callable[[Tensor], Tensor]]:
    """What the change does at each hook point; nothing for a model without positions.

    Tokens are taken to stand at 0, 1, 2, ...; padding may stand at the end only. Raises ValueError
    during the run where learned positions end before a shifted row does.
    """
    stack = stack_of(loaded, stream)
    if stack is None:
        return {}
    kind = loaded.config.positions
    if kind in ("sinusoidal", "learned"):
        added = partial(_added, positions=stack.positions, change=change)
        return {stack.hook_pos_embed.name: added}
    if kind == "rotary":
        turned = partial(_turned, base=loaded.config.rope_base, change=change)
        return {
            site.hook(what): turned
            for site in loaded.sites
            if site.kind == "self" and site.query_stream == stream
            for what in ("q", "k")
        }
    return {}


def _added(tensor: Tensor, positions: Positions, change: Change) -> Tensor:
    """What is added at the told positions, in place of `tensor` [batch, pos, d_model]."""
    told = told_positions(change, tensor.shape[1])
    if told is None:
        return torch.zeros_like(tensor)
    added = positions.added(told[None])
    return tensor if added is None else added.expand_as(tensor).clone()


def _turned(tensor: Tensor, base: float, change: Change) -> Tensor:
    """Queries or keys [batch, head, pos, d_head], turned on from their own to the told angles.

    Without positions nothing is turned at all: what the model has turned is turned back.
    """
    usual = torch.arange(tensor.shape[2])
    told = told_positions(change, len(usual))
    return rotate(tensor, (torch.zeros_like(usual) if told is None else told) - usual, base)
