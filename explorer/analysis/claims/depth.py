"""Claims about depth: whether deep stacks train without warm-up, and the effect of a norm there."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from explorer.analysis.claims import training
from explorer.analysis.claims.card import Claim, Result, ResultRow, judged
from explorer.library import LoadedModel
from explorer.runs.passes import Steps
from explorer.runs.trace import Trace
from explorer.seeding import seeded
from models.config import NormPlacement
from models.norms import LayerNorm

DEPTH, WARM = 8, 50
WIDTH, LENGTH = 32, 8


def warmup(
    loaded: LoadedModel,
    traced: Trace,
    learn: training.Learn = training.train,
) -> Steps[Result]:
    """Deep post-norm at a large rate, with warm-up, and at a small rate; deep pre-norm; three
    seeds.

    The task is only to repeat each symbol. "True" requires, with every seed, that post-norm fails
    without warm-up at both the large and the small rate and learns with it, and that pre-norm
    learns without. "False": post-norm always learns without warm-up, or pre-norm never does.
    """
    post = training.TaskTraining(
        training.symbol_config(n_layers=DEPTH), training.same, steps=80, rate=5e-3
    )
    arms = {
        "post_plain": post,
        "post_warmed": replace(post, warm=WARM),
        "post_small": replace(post, rate=5e-4),
        "pre_plain": replace(post, config=training.symbol_config(n_layers=DEPTH, **training.PRE)),
    }
    found = yield from training.several(arms, learn)
    rows, learned = [], {}
    for name, tries in found.items():
        before = float(np.mean([each.losses[0] for each in tries]))
        left = training.mean_and_range([each.left for each in tries])
        n_learned = sum(each.learned for each in tries)
        rows.append(ResultRow(name, (before, *left, n_learned)))
        learned[name] = n_learned
    every = len(training.SEEDS)
    needed = not learned["post_plain"] and not learned["post_small"]
    verdict = judged(
        needed and learned["post_warmed"] == learned["pre_plain"] == every,
        false=learned["post_plain"] == every or not learned["pre_plain"],
    )
    columns = ("loss_before", "loss_after", "range", "seeds_learned")
    numbers = {row.name: row.values[1] for row in rows}
    numbers |= {f"{row.name}_seeds": row.values[3] for row in rows}
    return Result(
        verdict, columns, tuple(rows), training.curves_of(found), why=(verdict,), numbers=numbers
    )


Start = Callable[[NormPlacement, int, int], tuple[float, float, float]]
EXPLODED = 100.0
"""A gradient above this has exploded; in the first of 24 pre-norm layers it is about 1."""


def at_start(placement: NormPlacement, depth: int, seed: int) -> tuple[float, float, float]:
    """(rms of the stream after the last block, gradient norms of the first and last block), for a
    stack with its initial weights."""
    with torch.inference_mode(False), torch.enable_grad():
        with seeded(seed):
            blocks = nn.Sequential(*(training.fresh_block(placement, WIDTH) for _ in range(depth)))
            out = nn.Linear(WIDTH, training.SYMBOLS)
            x, y = torch.randn(4, LENGTH, WIDTH), torch.randint(training.SYMBOLS, (4 * LENGTH,))
        stream = blocks(x)
        normed = stream if placement == "post" else LayerNorm(WIDTH)(stream)
        loss = nn.functional.cross_entropy(out(normed).flatten(0, 1), y)
        torch.autograd.backward([loss])
        first, last = (_gradient(blocks[index]) for index in (0, depth - 1))
    return float(stream.detach().pow(2).mean().sqrt()), first, last


def deep_pre(loaded: LoadedModel, traced: Trace, start: Start = at_start) -> Steps[Result]:
    """Fresh stacks of 24 and 192 layers: the size of the stream, the gradients at both ends.

    A stack has exploded if a gradient is infinite, NaN or above EXPLODED. "True": 192 pre-norm
    layers explode with every seed; "false": with none.
    """
    rows, exploded = [], {}
    cases: tuple[tuple[NormPlacement, int], ...] = (("pre", 24), ("pre", 192), ("sublayer", 192))
    for turn, (placement, depth) in enumerate(cases):
        tries = []
        for at, seed in enumerate(training.SEEDS):
            tries.append(start(placement, depth, seed))
            yield len(training.SEEDS) * turn + at + 1, len(training.SEEDS) * len(cases)
        stream, first, last = np.mean(tries, axis=0)
        largest = [max(each[1:]) for each in tries]
        exploded[placement, depth] = sum(not gradient < EXPLODED for gradient in largest)
        rows.append(
            ResultRow(f"deep_{placement}", (stream, first, last, max(largest)), of=str(depth))
        )
    n_exploded = exploded["pre", 192]
    verdict = judged(n_exploded == len(training.SEEDS), false=not n_exploded)
    short, long, branch = (row.values for row in rows)
    numbers = {
        "stream_24": short[0], "stream_192": long[0], "gradient_192": long[3],
        "exploded": n_exploded, "branch": branch[3],
    }  # fmt: skip
    other = "branch" if exploded["sublayer", 192] == len(training.SEEDS) else "branch_too"
    columns = ("stream_size", "first_gradient", "last_gradient", "largest_gradient")
    why = (verdict, "stream", other)
    return Result(verdict, columns, tuple(rows), bars="largest_gradient", why=why, numbers=numbers)


def _gradient(block: nn.Module) -> float:
    squares = [p.grad.pow(2).sum() for p in block.parameters() if isinstance(p.grad, Tensor)]
    return float(torch.stack(squares).sum().sqrt())


DEPTHS = (
    Claim("warmup", "blocks", warmup, own=False, slow=True),
    Claim("deep_pre", "blocks", deep_pre, own=False, slow=True),
)
