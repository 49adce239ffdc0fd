"""Claims that compare two designs: two nets of equal size trained alike, two ways timed alike."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from explorer.analysis.claims.attention import larger_neighbour
from explorer.analysis.claims.card import (
    Claim,
    Finding,
    FractionDone,
    ResultRow,
    judged,
    part_of,
)
from explorer.analysis.claims.training import SymbolNet, symbol_config, train
from explorer.analysis.machine.cost import best_time
from explorer.analysis.machine.parameters import numbers_of
from explorer.library import LoadedModel
from explorer.runs.trace import Trace
from models.config import ModelConfig

STEPS, SEEDS = 200, (0, 1, 2)
Learn = Callable[[ModelConfig, int, FractionDone], float]
"""(config of a SymbolNet, seed, progress) -> the loss that is left, nats."""


def _loss_left(config: ModelConfig, seed: int, progress: FractionDone) -> float:
    """Learn the larger of both neighbours; the mean loss of the last twenty steps."""
    losses = train(SymbolNet(config, seed), larger_neighbour, STEPS, 5e-3, progress, seed=seed)
    return float(np.mean(losses[-20:]))


def _compared(
    arms: dict[str, ModelConfig], learn: Learn, progress: FractionDone
) -> tuple[tuple[ResultRow, ...], list[list[float]], dict[str, float]]:
    """(a row an arm: parameters, loss, range; the loss of every seed; the numbers for words)."""
    rows, tries = [], []
    numbers: dict[str, float] = {}
    for turn, (name, config) in enumerate(arms.items()):
        part = partial(part_of, progress, turns=len(arms) * len(SEEDS))
        losses = [
            learn(config, seed, part(len(SEEDS) * turn + at)) for at, seed in enumerate(SEEDS)
        ]
        mean, spread = float(np.mean(losses)), float(np.ptp(losses))
        rows.append(ResultRow(name, (numbers_of(SymbolNet(config, 0)), mean, spread)))
        tries.append(losses)
        numbers |= {name: mean, f"{name}_range": spread}
    return tuple(rows), tries, numbers


def swiglu_equal(
    loaded: LoadedModel, traced: Trace, progress: FractionDone, learn: Learn = _loss_left
) -> Finding:
    """GELU 96 wide against SwiGLU 64 wide: 2 x 96 = 3 x 64, without biases; three seeds.

    "Beats" is a smaller loss with every seed than any of the other's.
    """
    arms = {
        "gelu_net": symbol_config(ffn="gelu", d_ff=96, bias=False),
        "swiglu_net": symbol_config(ffn="swiglu", d_ff=64, bias=False),
    }
    rows, (gelu, swiglu), numbers = _compared(arms, learn, progress)
    verdict = judged(max(swiglu) < min(gelu), false=min(swiglu) > max(gelu))
    return Finding(verdict, COLUMNS, rows, bars="loss_after", why=(verdict,), numbers=numbers)


def rms_quality(
    loaded: LoadedModel, traced: Trace, progress: FractionDone, learn: Learn = _loss_left
) -> Finding:
    """The same pre-norm net with either norm in its blocks, three seeds.

    "Hardly" is a difference of the means within 0.05 nats; "false" is one of more than that with
    every seed of one beyond every seed of the other.
    """
    arms = {
        "layernorm_net": symbol_config(norm_placement="pre", final_norm=True),
        "rmsnorm_net": symbol_config(norm="rmsnorm", norm_placement="pre", final_norm=True),
    }
    rows, (layer, rms), numbers = _compared(arms, learn, progress)
    close = abs(float(np.mean(layer)) - float(np.mean(rms))) <= 0.05
    apart = max(layer) < min(rms) or max(rms) < min(layer)
    verdict = judged(close, false=not close and apart)
    return Finding(verdict, COLUMNS, rows, bars="loss_after", why=(verdict,), numbers=numbers)


COLUMNS = ("parameters", "loss_after", "range")
TOKENS = (1, 32, 512)
TRIES = 3


def _apart(three: list[nn.Linear], x: Tensor) -> list[Tensor]:
    return [each(x) for each in three]


def _fused(one: nn.Linear, x: Tensor) -> tuple[Tensor, ...]:
    return one(x).chunk(3, dim=-1)


def fused_qkv(
    loaded: LoadedModel,
    traced: Trace,
    progress: FractionDone,
    seconds: Callable[[Callable[[], object]], float] = best_time,
) -> Finding:
    """Three projections of width 512 against one of 1536 for 1, 32 and 512 tokens; three tries.

    `seconds(function)` gives a time. Faster is by more than 5 % in every try.
    """
    rows, faster, numbers = [], [], {}
    three = [nn.Linear(512, 512) for _ in range(3)]
    one = nn.Linear(512, 3 * 512)
    with torch.inference_mode():
        for step, n_tokens in enumerate(TOKENS):
            x = torch.randn(1, n_tokens, 512)
            ratios, times = [], []
            for _ in range(TRIES):
                apart = seconds(partial(_apart, three, x))
                fused = seconds(partial(_fused, one, x))
                ratios.append(apart / fused)
                times.append((1000 * apart, 1000 * fused))
            mean = np.median(times, axis=0)
            values = (
                float(mean[0]),
                float(mean[1]),
                float(np.median(ratios)),
                float(np.ptp(ratios)),
            )
            rows.append(ResultRow("tokens", values, of=str(n_tokens)))
            numbers[f"ratio_{n_tokens}"] = float(np.median(ratios))
            faster.append(min(ratios) > 1.05)
            progress((step + 1) / len(TOKENS))
    verdict = judged(all(faster), false=not any(faster))
    columns = ("three_matrices", "one_matrix", "ratio", "ratio_range")
    return Finding(verdict, columns, tuple(rows), bars="ratio", why=(verdict,), numbers=numbers)


COMPARED = (
    Claim("fused_qkv", "cost", fused_qkv, own=False, slow=True),
    Claim("swiglu_equal", "blocks", swiglu_equal, own=False, slow=True),
    Claim("rms_quality", "blocks", rms_quality, own=False, slow=True),
)
