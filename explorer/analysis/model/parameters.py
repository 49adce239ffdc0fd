"""Parameters counted from the real modules, part by part, even of models too large to load.

A model of any size is built on torch's `meta` device: every tensor has a shape and no storage,
so seven billion parameters are counted in a second or two, by the same classes that run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from torch import nn

from models.attention import Attention
from models.config import ModelConfig
from models.fast import without_numbers
from models.feedforward import FeedForward
from models.norms import Norm
from models.transformer import Model, build_model

Kind = Literal["embedding", "attention", "cross_attention", "ffn", "norms", "positions", "unembed"]


KINDS: tuple[Kind, ...] = get_args(Kind)


_T = TypeVar("_T")


@dataclass(frozen=True)
class Count:
    """The number of parameters of each part of a model; `by_kind` adds up to `total`."""

    by_kind: dict[Kind, int]
    total: int


def on_paper(build: Callable[[], _T]) -> _T:
    """The result of `build`, as shapes without storage."""
    with without_numbers():
        return build()


def count(model: nn.Module) -> Count:
    """The parameters of a model by function; a tied matrix is counted once, as embedding."""
    by_kind: dict[Kind, int] = dict.fromkeys(KINDS, 0)
    seen: set[int] = set()
    for name, module in model.named_modules():
        kind = _kind(name, module)
        if kind is None:
            continue
        for parameter in module.parameters():
            if id(parameter) not in seen:
                seen.add(id(parameter))
                by_kind[kind] += parameter.numel()
    total = sum(parameter.numel() for parameter in model.parameters())
    return Count(by_kind, total)


def _kind(name: str, module: nn.Module) -> Kind | None:
    """The kind that a module is counted as; None if its children or a parent are counted."""
    path = f".{name}"
    match module:
        case Attention():
            return "cross_attention" if path.endswith(".cross_attn") else "attention"
        case FeedForward():
            return "ffn"
        case Norm():
            return "norms"
        case nn.Embedding():
            return "embedding"
    if path.endswith((".unembed", ".head")):
        return "unembed"
    return "positions" if path.endswith(".positions") else None


def count_config(config: ModelConfig) -> Count:
    """The parameters of a model with this config."""
    return count(on_paper(lambda: build_model(config)))


def numbers_of(model: Model | nn.Module) -> int:
    """All parameters of a module."""
    return sum(parameter.numel() for parameter in model.parameters())
