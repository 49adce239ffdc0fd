"""Positions changed during a run: removed, shifted, two of them swapped, or reversed.

A change assigns other positions to the tokens of one stream. It acts at `hook_positions`, before
the model uses positions in any way, so one edit covers every kind of positional encoding. The model
itself is never modified.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, cast, get_args

import torch
from jaxtyping import Int
from torch import Tensor

from explorer.library import LoadedModel
from models.rows import Stream
from models.transformer import Stack

ChangeKind = Literal["remove", "shift", "swap", "reverse"]
CHANGE_KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)
MOST_SHIFT = 512
_TEXT = re.compile(r"(remove|reverse)|(shift)-([0-9]{1,3})|(swap)-([0-9]{1,3})-([0-9]{1,3})")


@dataclass(frozen=True)
class PositionChange:
    """One change of positions. `first` is the shift, or the first of two swapped positions.

    remove: no token has a position. shift: every token's position is increased by `first`.
    swap: `first` and `second` exchange positions. reverse: the last token gets the first position.
    """

    kind: ChangeKind
    first: int = 0
    second: int = 0


REMOVE = PositionChange("remove")


def most_shift(loaded: LoadedModel, n: int) -> int:
    """The largest shift of `n` tokens: learned positions end at n_ctx, others do not."""
    longest = loaded.config.longest
    return MOST_SHIFT if longest is None else max(0, longest - n)


def format_change(change: PositionChange) -> str:
    """The change as text for a link: `remove`, `reverse`, `shift-20`, `swap-1-3`."""
    match change.kind:
        case "shift":
            return f"shift-{change.first}"
        case "swap":
            return f"swap-{change.first}-{change.second}"
    return change.kind


def parse_change(text: str) -> PositionChange:
    """Inverse of `format_change`. Raises ValueError for anything else, and for a long shift."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"not a change of positions: {text!r}")
    if match[2]:
        if int(match[3]) > MOST_SHIFT:
            raise ValueError(f"a shift of {match[3]}: the longest is {MOST_SHIFT}")
        return PositionChange("shift", int(match[3]))
    if match[4]:
        return PositionChange("swap", int(match[5]), int(match[6]))
    return REMOVE if match[1] == "remove" else PositionChange("reverse")


def told_positions(change: PositionChange, n: int) -> Int[Tensor, " pos"] | None:
    """The position assigned to each of `n` tokens; None: no positions at all.

    A swap with a token beyond the sequence changes nothing.
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


def stack_module(loaded: LoadedModel, stream: Stream) -> Stack | None:
    """The part of a model that reads a stream; None if the model has no such stream."""
    for stack in loaded.stacks:
        if stack.stream == stream:
            return cast(Stack, loaded.model.get_submodule(stack.name))
    return None


def position_functions(
    loaded: LoadedModel, stream: Stream, change: PositionChange
) -> dict[str, Callable[[Tensor], Tensor]]:
    """The function of the change at each hook point; empty for a model without positions.

    Tokens are assumed to be at 0, 1, 2, ..., with padding at the end only. Raises ValueError during
    the run if learned positions end before a shifted sequence does.
    """
    stack = stack_module(loaded, stream)
    if stack is None or stack.positions.acts == "nothing":
        return {}
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        stack.hook_positions.name: partial(_told, change=change)
    }
    if change.kind == "remove":  # all at 0: no rotation, and the same bias for all keys
        functions[stack.hook_pos_embed.name] = torch.zeros_like
    return functions


def _told(positions: Tensor, change: PositionChange) -> Tensor:
    """The positions assigned instead of `positions` [batch, pos]; 0 for none."""
    told = told_positions(change, positions.shape[1])
    return torch.zeros_like(positions) if told is None else told.expand_as(positions)
