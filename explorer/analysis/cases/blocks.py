"""Claims about norms, activations and depth: placement, batch statistics, GELU, gradients."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import numpy as np
import torch
from torch import Tensor, nn

from explorer.analysis.cases.backend import module_like
from explorer.analysis.cases.case import Curves, Result, ResultRow, judged
from explorer.analysis.cases.training import SEEDS, SYMBOLS, fresh_block
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.passes import Steps, seeded
from explorer.runs.rerun import rows_of
from explorer.runs.run import run
from explorer.runs.trace import Trace
from models.blocks import Block
from models.config import NormPlacement
from models.feedforward import ACTIVATIONS
from models.norms import LayerNorm

PLACEMENTS: tuple[NormPlacement, ...] = get_args(NormPlacement)


def _as_torch(block: Block) -> nn.TransformerEncoderLayer:
    """torch's layer (norm_first=False, as published) with the weights of ours."""
    attn, net = block.attn, block.ffn
    layer = nn.TransformerEncoderLayer(
        attn.w_q.in_features, attn.n_heads, net.w_up.out_features, 0.0, batch_first=True
    )
    layer.self_attn = module_like(attn)
    layer.linear1, layer.linear2 = net.w_up, net.w_down
    layer.norm1.load_state_dict(block.attn_norm.state_dict())
    layer.norm2.load_state_dict(block.ffn_norm.state_dict())
    return layer


def original(published: Callable[[Block], nn.Module] = _as_torch) -> Result:
    """Each placement compared with the 2017 layer, `published(block)`, with the same weights."""
    rows = []
    with seeded(0), torch.inference_mode():
        x = torch.randn(2, 7, 32)
        for placement in PLACEMENTS:
            block = fresh_block(placement, 32)
            theirs = published(block)
            rows.append(ResultRow(placement, (float((block(x) - theirs(x)).abs().max()),)))
    same = {row.name: row.values[0] < 1e-4 for row in rows}
    verdict = judged(same["sublayer"], false=same["post"] and not same["sublayer"])
    return Result(verdict, ("difference",), rows, bars="difference")


def batch_norm(
    loaded: LoadedModel, traced: Trace, norm: Callable[[int], nn.Module] = nn.BatchNorm1d
) -> Result:
    """Normalize the input of the model's first attention block with `norm` and with LayerNorm.

    Raises InputProblem for a sentence of one token, which has no statistics of its own.
    """
    sentences, padding = _stream_of_a_batch(loaded, traced)
    if len(sentences[0]) == 1:
        raise InputProblem("one_token")
    with torch.inference_mode():
        measured = [
            _under_strain(make(sentences[0].shape[1]), sentences, padding)
            for make in (norm, LayerNorm)
        ]
    rows = [
        ResultRow(name, tuple(values)) for name, *values in zip(STRAINS, *measured, strict=True)
    ]
    beside, padded, _, single, single_in_use = measured[0]
    unstable = max(beside, padded) > 0.1
    refused = not single < 1e-3, not single_in_use < 1e-3  # also True for NaN
    verdict = judged(unstable and all(refused), false=not unstable and not any(refused))
    return Result(verdict, ("batch_norm", "layer_norm"), rows)


STRAINS = (
    "another_sentence", "padding_counted", "training_and_use", "one_token", "one_token_in_use",
)  # fmt: skip


def _stream_of_a_batch(loaded: LoadedModel, traced: Trace) -> tuple[list[Tensor], Tensor]:
    """(the vectors [pos, d_model] of eight sentences, the user's first; the padding's vectors)."""
    site = traced.sites[0]
    rows = rows_of(traced).select([0] * 8)
    own = rows.src if site.query_stream == "src" else rows.tgt
    assert own is not None
    generator = torch.Generator().manual_seed(0)
    reads = site.query_stream
    tokens = torch.randint(loaded.config.n_tokens(reads), own.shape, generator=generator)
    lengths = torch.randint(1, own.shape[1] + 1, (8, 1), generator=generator)
    valid = torch.arange(own.shape[1]) < lengths
    pad = loaded.marks.of(reads).pad
    kept = valid.reshape(*valid.shape, *[1] * (own.dim() - 2))  # patches have pixels
    tokens = torch.where(kept, tokens, 0 if pad is None else pad)
    tokens[0], valid[0] = own[0], True
    if reads == "src":
        rows = replace(rows, src=tokens, src_valid=valid)
    else:
        rows = replace(rows, tgt=tokens, tgt_valid=valid)
    hook = site.block_hook("resid_pre")
    stream = run(loaded.model, rows, {hook})[hook]
    return [vectors[real] for vectors, real in zip(stream, valid, strict=True)], stream[~valid]


def _under_strain(norm: nn.Module, sentences: list[Tensor], padding: Tensor) -> tuple[float, ...]:
    """The changes listed in STRAINS; NaN if the norm rejects the input."""
    own, n = sentences[0], len(sentences[0])
    norm.train()
    alone = norm(own)
    beside = norm(torch.cat(sentences))[:n]
    padded = norm(torch.cat([*sentences, padding]))[:n]
    for step in range(200):  # running statistics decay to a tenth in 22 updates
        norm(torch.cat([sentences[step % len(sentences)], sentences[(step + 3) % len(sentences)]]))
    single = _try(lambda: _moved(norm(own[:1]), alone[:1]))
    norm.eval()
    in_use = norm(own)
    single_in_use = _try(lambda: _moved(norm(own[:1]), in_use[:1]))
    return (
        _moved(beside, alone), _moved(padded, beside), _moved(in_use, beside),
        single, single_in_use,
    )  # fmt: skip


def _try(measure: Callable[[], float]) -> float:
    try:
        return measure()
    except ValueError:  # BatchNorm rejects a single row, which has no variance
        return math.nan


def _moved(now: Tensor, before: Tensor) -> float:
    return float((now - before).pow(2).mean().sqrt() / before.pow(2).mean().sqrt())


def gelu_tanh(approximate: Callable[[Tensor], Tensor] = ACTIVATIONS["gelu_tanh"]) -> Result:
    """The largest difference between the exact GELU and an approximation, also in float16 steps."""
    x = torch.linspace(-6, 6, 4801, dtype=torch.float64)
    exact = ACTIVATIONS["gelu"](x)
    apart = (exact - approximate(x)).abs()
    steps = apart.numpy() / np.abs(np.spacing(exact.numpy().astype(np.float16)).astype(float))
    largest = float(apart.max())
    below, above = (side & (apart == apart[side].max()) for side in (x < 0, x >= 0))
    numbers = {
        "largest_difference": largest,
        "at_x": x[apart.argmax()].abs(),
        "float16_below": steps[below.numpy()].max(),
        "float16_above": steps[above.numpy()].max(),
        "float16_most": steps.max(),
        "float16_most_at": x[int(steps.argmax())],
        "gelu_minimum": exact.min(),
        "gelu_minimum_at": x[exact.argmin()],
    }
    rows = [ResultRow(name, (float(number),)) for name, number in numbers.items()]
    inner = float(apart[x.abs() <= 1].max())
    verdict = judged(largest < 1e-3, false=inner >= 1e-3)
    curve = Curves(x.numpy()[::40], apart.numpy()[None, ::40], ("difference",), "x", "difference")
    return Result(verdict, ("value",), rows, curve)


WIDTH, LENGTH = 32, 8
Start = Callable[[NormPlacement, int, int], tuple[float, float, float]]
EXPLODED = 100.0
"""A gradient above this has exploded; in the first of 24 pre-norm layers it is about 1."""


def at_start(placement: NormPlacement, depth: int, seed: int) -> tuple[float, float, float]:
    """(rms of the stream after the last block, gradient norms of the first and last block), for a
    stack with its initial weights."""
    with torch.inference_mode(False), torch.enable_grad():
        with seeded(seed):
            blocks = nn.Sequential(*(fresh_block(placement, WIDTH) for _ in range(depth)))
            out = nn.Linear(WIDTH, SYMBOLS)
            x, y = torch.randn(4, LENGTH, WIDTH), torch.randint(SYMBOLS, (4 * LENGTH,))
        stream = blocks(x)
        normed = stream if placement == "post" else LayerNorm(WIDTH)(stream)
        loss = nn.functional.cross_entropy(out(normed).flatten(0, 1), y)
        torch.autograd.backward([loss])
        first, last = (_gradient(blocks[index]) for index in (0, depth - 1))
    return float(stream.detach().pow(2).mean().sqrt()), first, last


def deep_pre(start: Start = at_start) -> Steps[Result]:
    """Fresh stacks of 24 and 192 layers: the size of the stream, the gradients at both ends. NaN
    counts as exploded."""
    rows, n_exploded = [], 0
    cases: tuple[tuple[NormPlacement, int], ...] = (("pre", 24), ("pre", 192), ("sublayer", 192))
    for turn, (placement, depth) in enumerate(cases):
        tries = []
        for at, seed in enumerate(SEEDS):
            tries.append(start(placement, depth, seed))
            yield len(SEEDS) * turn + at + 1, len(SEEDS) * len(cases)
        stream, first, last = np.mean(tries, axis=0)
        largest = [max(attempt[1:]) for attempt in tries]
        if (placement, depth) == ("pre", 192):
            n_exploded = sum(not gradient < EXPLODED for gradient in largest)
        rows.append(
            ResultRow(f"deep_{placement}", (stream, first, last, max(largest)), of=str(depth))
        )
    verdict = judged(n_exploded == len(SEEDS), false=not n_exploded)
    columns = ("stream_size", "first_gradient", "last_gradient", "largest_gradient")
    return Result(verdict, columns, rows, bars="largest_gradient")


def _gradient(block: nn.Module) -> float:
    squares = [p.grad.pow(2).sum() for p in block.parameters() if isinstance(p.grad, Tensor)]
    return float(torch.stack(squares).sum().sqrt())
