"""Tiny models whose sizes never coincide, and the names that they give.

Batch, lengths, heads and widths are pairwise different everywhere, since axes that were mixed up
go unnoticed while two of them are equal; norm weights and biases are scattered, since many
mistakes vanish while weights are 1 and biases 0.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from models.config import ModelConfig
from models.hooks import HookPoint, Record, visiting
from models.rows import Rows
from models.transformer import FAMILIES, Model, build_model

WRITERS = [family for family in FAMILIES if ModelConfig(family=family, vocab_size=9).is_causal]
"""Those that write one token after another, with a cache or without."""
SIZES: dict[str, Any] = {
    "d_model": 24,
    "n_layers": 2,
    "n_encoder_layers": 3,
    "n_heads": 4,
    "d_ff": 20,
}


def tiny_config(**changes: Any) -> ModelConfig:
    usual: dict[str, Any] = {"vocab_size": 23, "n_ctx": 17, "dropout": 0.0}
    return ModelConfig(**(SIZES | usual | changes))


def scatter(module: nn.Module) -> nn.Module:
    """Give every vector of weights (norm weights, all biases) values that are all different."""
    for parameter in module.parameters():
        if parameter.ndim == 1:
            parameter.data.add_(0.5 * torch.randn(parameter.shape))
    return module


def tiny_model(dtype: torch.dtype = torch.float64, **changes: Any) -> Model:
    model = build_model(tiny_config(**changes))
    scatter(model)
    return model.to(dtype).eval()


def random_tokens(batch: int, n: int, vocab_size: int = 23) -> Tensor:
    return torch.randint(4, vocab_size, (batch, n))


def run_model(model: Model, src: Tensor, tgt: Tensor, **valid: Tensor | None) -> Tensor:
    """Logits of any family: the source is ignored by one that has none."""
    if not model.config.reads_source:
        return model.read(Rows(tgt, valid.get("tgt_valid")))
    return model.read(Rows(tgt, valid.get("tgt_valid"), src, valid.get("src_valid")))


def record(forward: Callable[[], Tensor], wants: Callable[[str], bool]) -> dict[str, Tensor]:
    record = Record(wants)
    with visiting(record):
        forward()
    return record.activations


def sized(d_model: int, n_heads: int, **more: object) -> ModelConfig:
    """The config of a lone sublayer."""
    return ModelConfig(vocab_size=1, d_model=d_model, n_heads=n_heads, **more)


def everything(name: str) -> bool:
    """Of a record: every hook point."""
    return True


def hook_names(model: nn.Module) -> tuple[str, ...]:
    """The names of all hook points of a built model, in the order of its modules."""
    return tuple(module.name for module in model.modules() if isinstance(module, HookPoint))
