"""The cost of a model: multiplications and bytes by the length of the text, and measured time.

A multiplication and an addition count as two operations (FLOPs). Norms, softmax and biases are
left out: they are a few per mille of the total.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import torch
from torch import Tensor, nn

from explorer.analysis.model.parameters import on_paper
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.passes import Clock, Steps, timed, walked
from explorer.runs.rerun import require_same_model, rows_of
from explorer.runs.trace import Trace
from models.cache import KVCache
from models.config import ModelConfig
from models.hooks import Edits, visiting
from models.rows import as_tensor
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


@dataclass(frozen=True)
class Pass:
    """One way to compute the logits after every token of a sequence, and its cost."""

    name: str
    steps: int
    tokens: int
    seconds: float


@dataclass(frozen=True)
class Passes:
    """One training pass, generation without a cache and with one, over the same sequence.

    `difference` is the largest deviation of any logit of either generation from the training pass.
    """

    passes: tuple[Pass, ...]
    difference: float


def measure_passes(
    loaded: LoadedModel, traced: Trace, n_tokens: int, clock: Clock = time.perf_counter
) -> Steps[Passes]:
    """Read `n_tokens` (the Trace's own, repeated) all at once and token by token.

    Raises ValueError for another model's Trace and for sequences longer than n_ctx; InputProblem
    `writes_nothing` for a model that does not generate token by token.
    """
    if not loaded.config.generates:
        raise InputProblem("writes_nothing")
    require_same_model(loaded, traced)
    if not 1 <= n_tokens <= traced.config.n_ctx:
        raise ValueError(f"{n_tokens} tokens; this model reads up to {traced.config.n_ctx}")
    own = [token for token, real in zip(traced.tgt_tokens, traced.tgt_valid, strict=True) if real]
    row = as_tensor([(own * (n_tokens // len(own) + 1))[:n_tokens]])
    model = loaded.model
    with torch.inference_mode():
        rows = rows_of(traced)
        memory = model.memory_of(rows)

        def logits(new: Tensor, cache: KVCache | None = None) -> Tensor:
            return model.read(replace(rows, tgt=new, tgt_valid=None), memory, cache)

        logits(row)  # warm-up: the first pass includes torch's initialisation
        counts: list[list[int]] = [[], [], []]  # the tokens of every pass
        cache, embed = KVCache(traced.config.n_layers), traced.stacks[-1].hook("embed")
        with visiting(_noting(embed, counts[0])):
            once, (whole,) = walked(_timed([partial(logits, row)], clock))
        with visiting(_noting(embed, counts[1])):
            ways = [partial(logits, row[:, :end]) for end in range(1, n_tokens + 1)]
            slow, serial = yield from _timed(ways, clock)
        with visiting(_noting(embed, counts[2])):
            ways = [partial(logits, row[:, end : end + 1], cache) for end in range(n_tokens)]
            quick, cached = walked(_timed(ways, clock))
    apart = max(
        float((torch.stack([logits[0, -1] for logits in outputs]) - whole[0]).abs().max())
        for outputs in (serial, cached)
    )
    names, times = ("training", "no_cache", "with_cache"), (once, slow, quick)
    passes = (
        Pass(name, len(count), sum(count), seconds)
        for name, count, seconds in zip(names, counts, times, strict=True)
    )
    return Passes(tuple(passes), apart)


def _timed(
    passes: Sequence[Callable[[], Tensor]], clock: Clock
) -> Steps[tuple[float, list[Tensor]]]:
    """The seconds of all passes and their results; yields to other sessions between passes."""
    seconds, outputs = 0.0, []
    for done, one_pass in enumerate(passes, 1):
        taken, logits = timed(one_pass, clock)
        seconds += taken
        outputs.append(logits)
        yield done, len(passes)
    return seconds, outputs


def _noting(hook: str, lengths: list[int]) -> Edits:
    """An edit that changes nothing: it notes the number of tokens of every pass."""

    def note(embedded: Tensor) -> Tensor:
        lengths.append(embedded.shape[1])
        return embedded

    return Edits({hook: note})


def best_time(
    function: Callable[[], object], repeats: int = 5, clock: Clock | None = None
) -> float:
    """The fastest of several runs of a function, in seconds: the least disturbed one.

    One warm-up run precedes them and is not counted.
    """
    now = time.perf_counter if clock is None else clock
    function()
    return min(timed(function, now)[0] for _ in range(repeats))
