"""Claims about depth: whether deep stacks train without warm-up, and what a norm does there."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from explorer.analysis.claims.card import (
    Claim,
    Curve,
    Finding,
    FractionDone,
    ResultRow,
    judged,
    part_of,
)
from explorer.analysis.claims.training import SYMBOLS, SymbolNet, fresh_block, symbol_config, train
from explorer.library import LoadedModel
from explorer.runs.trace import Trace
from explorer.seeding import seeded
from models.config import NormPlacement
from models.norms import LayerNorm

Learn = Callable[[NormPlacement, float, int, int, FractionDone], list[float]]
"""(placement, learning rate, warm-up steps, seed, progress) -> the loss of each step."""
ARMS: tuple[tuple[str, NormPlacement, float, int], ...] = (
    ("post_plain", "post", 3e-3, 0),
    ("post_warmed", "post", 3e-3, 100),
    ("post_small", "post", 3e-4, 0),
    ("pre_plain", "pre", 3e-3, 0),
)
"""What is compared: name, placement, learning rate, warm-up steps."""
SEEDS = (0, 1, 2)
DEPTH, STEPS = 12, 150
WIDTH, LENGTH = 32, 8


def _losses(
    placement: NormPlacement, rate: float, warm: int, seed: int, progress: FractionDone
) -> list[float]:
    """Twelve layers learn to reverse rows of ten symbols."""
    net = SymbolNet(symbol_config(n_layers=DEPTH, d_ff=128, norm_placement=placement), seed)
    return train(net, lambda rows: rows.flip(1), STEPS, rate, progress, warm, seed=seed)


def warmup(
    loaded: LoadedModel, traced: Trace, progress: FractionDone, learn: Learn = _losses
) -> Finding:
    """Deep post-norm at a large rate, with warm-up, at a small rate; deep pre-norm; three seeds.

    Adam. An arm has learned when with every seed its last losses lie at least 0.1 nats below
    ln 10, the loss of guessing.
    """
    rows, curves, learned = [], [], {}
    for turn, (name, placement, rate, warm) in enumerate(ARMS):
        tries = []
        for at, seed in enumerate(SEEDS):
            part = part_of(progress, len(SEEDS) * turn + at, len(SEEDS) * len(ARMS))
            tries.append(learn(placement, rate, warm, seed, part))
        curves.append(np.mean(tries, axis=0))
        last = [float(np.mean(losses[-10:])) for losses in tries]
        values = float(curves[-1][0]), float(np.mean(last)), float(np.ptp(last))
        rows.append(ResultRow(name, values))
        learned[name] = max(last) < math.log(SYMBOLS) - 0.1
    needed = not learned["post_plain"] and not learned["post_small"] and learned["post_warmed"]
    verdict = judged(
        needed and learned["pre_plain"], false=learned["post_plain"] or not learned["pre_plain"]
    )
    names = tuple(name for name, *_ in ARMS)
    return Finding(
        verdict,
        ("loss_before", "loss_after", "range"),
        tuple(rows),
        Curve(np.arange(1, len(curves[0]) + 1), np.array(curves), names, "step", "loss"),
        why=(verdict,),
        numbers={row.name: row.values[1] for row in rows},
    )


def deep_pre(loaded: LoadedModel, traced: Trace, progress: FractionDone) -> Finding:
    """Fresh stacks of up to 192 layers: the size of the stream, the gradients at both ends."""
    rows = []
    cases: tuple[tuple[NormPlacement, int], ...] = (
        ("pre", 24), ("pre", 96), ("pre", 192), ("post", 192), ("sublayer", 192),
    )  # fmt: skip
    for step, (placement, depth) in enumerate(cases):
        rows.append(ResultRow(f"deep_{placement}", _at_start(placement, depth), of=str(depth)))
        progress((step + 1) / len(cases))
    _, first, last = rows[2].values
    calm = max(first, last) < 100 and math.isfinite(first)
    columns = ("stream_size", "first_gradient", "last_gradient")
    return Finding(judged(not calm, false=calm), columns, tuple(rows), bars="first_gradient")


def _at_start(placement: NormPlacement, depth: int) -> tuple[float, float, float]:
    """(rms of the stream after the last block, gradient norms of the first and last block)."""
    with torch.inference_mode(False), torch.enable_grad():
        with seeded(0):
            blocks = nn.Sequential(*(fresh_block(placement, WIDTH) for _ in range(depth)))
            out = nn.Linear(WIDTH, SYMBOLS)
            x, y = torch.randn(4, LENGTH, WIDTH), torch.randint(SYMBOLS, (4 * LENGTH,))
        stream = blocks(x)
        normed = stream if placement == "post" else LayerNorm(WIDTH)(stream)
        loss = nn.functional.cross_entropy(out(normed).flatten(0, 1), y)
        torch.autograd.backward([loss])
        first, last = (_gradient(blocks[index]) for index in (0, depth - 1))
    return float(stream.detach().pow(2).mean().sqrt()), first, last


def _gradient(block: nn.Module) -> float:
    squares = [p.grad.pow(2).sum() for p in block.parameters() if isinstance(p.grad, Tensor)]
    return float(torch.stack(squares).sum().sqrt())


DEPTHS = (
    Claim("warmup", "blocks", warmup, own=False, slow=True),
    Claim("deep_pre", "blocks", deep_pre, own=False, slow=True),
)
