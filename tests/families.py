"""The families by what the tests of one ability need, and the names that they give."""

from torch import nn

from models.config import ModelConfig
from models.hooks import HookPoint
from models.transformer import FAMILIES

WRITERS = [family for family in FAMILIES if ModelConfig(family=family, vocab_size=9).is_causal]
"""Those that write one token after another, with a cache or without."""


def sized(d_model: int, n_heads: int, **more: object) -> ModelConfig:
    """The config of a lone sublayer."""
    return ModelConfig(vocab_size=1, d_model=d_model, n_heads=n_heads, **more)


def everything(name: str) -> bool:
    """Of a record: every hook point."""
    return True


def hook_names(model: nn.Module) -> tuple[str, ...]:
    """The names of all hook points of a built model, in the order of its modules."""
    return tuple(module.name for module in model.modules() if isinstance(module, HookPoint))
