"""The cost of a model: multiplications and bytes by the length of the text, and measured time.

A multiplication and an addition count as two operations (FLOPs). Norms, softmax and biases are
left out: they are a few per mille of the total.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from torch import nn

from explorer.analysis.model.parameters import on_paper
from explorer.runs.passes import Clock, timed
from models.config import ModelConfig
from models.transformer import build_model

FLOAT = 4


@dataclass(frozen=True)
class Cost:
    """The cost of one pass over `length` tokens (on each side, in a translator).

    `linear_flops` are those of the weight matrices, `attention_flops` those of q k^T and of
    pattern v, the only ones that grow with length squared. Bytes in float32: `pattern_bytes` of
    one layer's patterns of one kind, `cache_bytes` of all keys and values cached during generation,
    `weight_bytes` of the parameters.
    """

    length: int
    linear_flops: int
    attention_flops: int
    pattern_bytes: int
    cache_bytes: int
    weight_bytes: int


def cost(
    config: ModelConfig, length: int, weight_bytes: int | None = None, *, unembeds: bool = True
) -> Cost:
    """The cost of a config at a length; `weight_bytes` None: counted. Raises ValueError.

    Without `unembeds`: of the layers alone, which compute no logits.
    """
    if length < 1:
        raise ValueError(f"length is {length}: at least one token")
    layers, output, parameters = _sizes(config)
    cross, kv = config.cross_layers, config.kv_heads * config.d_head
    n_sites = config.encoder_layers + config.n_layers + cross
    return Cost(
        length=length,
        linear_flops=2 * length * (layers + output * unembeds),
        attention_flops=n_sites * 4 * length * length * config.n_heads * config.d_head,
        pattern_bytes=FLOAT * config.n_heads * length * length,
        cache_bytes=FLOAT * 2 * kv * length * (config.n_layers + cross) * config.is_causal,
        weight_bytes=FLOAT * parameters if weight_bytes is None else weight_bytes,
    )


@lru_cache(maxsize=64)
def _sizes(config: ModelConfig) -> tuple[int, int, int]:
    """The numbers in the matrices of the layers, in those that compute logits, and in all."""
    model = on_paper(lambda: build_model(config))
    linear = {
        name: module.weight.numel()
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
    }
    output = sum(size for name, size in linear.items() if name.startswith(("unembed", "head")))
    layers = sum(linear.values()) - output
    if config.lm_head and "unembed" not in linear:  # the embeddings
        output += config.vocab_size * config.width
    return layers, output, sum(parameter.numel() for parameter in model.parameters())


def best_time(
    function: Callable[[], object], repeats: int = 5, clock: Clock | None = None
) -> float:
    """The fastest of several runs of a function, in seconds: the least disturbed one.

    One warm-up run precedes them and is not counted.
    """
    now = time.perf_counter if clock is None else clock
    function()
    return min(timed(function, now)[0] for _ in range(repeats))
