"""Claims about depth: whether deep stacks train without warm-up, and what a norm does there."""

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from explorer.analysis.claims.card import (
    Claim,
    Finding,
    FractionDone,
    ResultRow,
    judged,
)
from explorer.analysis.claims.training import (
    PRE,
    SYMBOLS,
    Learn,
    Training,
    curves_of,
    fresh_block,
    mean_and_range,
    same,
    several,
    symbol_config,
    train,
)
from explorer.library import LoadedModel
from explorer.runs.trace import Trace
from explorer.seeding import seeded
from models.config import NormPlacement
from models.norms import LayerNorm

DEPTH, WARM = 8, 50
WIDTH, LENGTH = 32, 8


def warmup(
    loaded: LoadedModel, traced: Trace, progress: FractionDone, learn: Learn = train
) -> Finding:
    """Deep post-norm at a large rate, with warm-up, at a small rate; deep pre-norm; three seeds.

    The task is only to say each symbol again. An arm has learned it when it has with every seed.
    """
    post = Training(symbol_config(n_layers=DEPTH), same, steps=80, rate=5e-3)
    arms = {
        "post_plain": post,
        "post_warmed": replace(post, warm=WARM),
        "post_small": replace(post, rate=5e-4),
        "pre_plain": replace(post, config=symbol_config(n_layers=DEPTH, **PRE)),
    }
    found = several(arms, learn, progress)
    rows, learned = [], {}
    for name, tries in found.items():
        before = float(np.mean([each.losses[0] for each in tries]))
        left = mean_and_range([each.left for each in tries])
        n_learned = sum(each.learned for each in tries)
        rows.append(ResultRow(name, (before, *left, n_learned)))
        learned[name] = n_learned == len(tries)
    needed = not learned["post_plain"] and not learned["post_small"] and learned["post_warmed"]
    verdict = judged(
        needed and learned["pre_plain"], false=learned["post_plain"] or not learned["pre_plain"]
    )
    columns = ("loss_before", "loss_after", "range", "seeds_learned")
    numbers = {row.name: row.values[1] for row in rows}
    numbers |= {f"{row.name}_seeds": row.values[3] for row in rows}
    return Finding(verdict, columns, tuple(rows), curves_of(found), why=(verdict,), numbers=numbers)


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
