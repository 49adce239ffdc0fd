"""Bugs inside a model other than masks: scale, positions, norms, projections, dtypes."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from explorer.analysis.cases.case import Case, Measured
from explorer.analysis.cases.planting import (
    decoder_self,
    everywhere,
    fixed_scores,
    fixed_table,
    own_case,
    own_site,
    plant_positions,
    plant_scale,
)
from explorer.analysis.heads.measures import entropy
from explorer.numerics import masked_softmax
from explorer.runs.passes import seeded
from explorer.runs.trace import Trace
from models.attention import share_heads
from models.positions import sinusoidal_table

WIDTH = 64
"""Maximum number of embedding features used of the user's model."""
HALVES = (torch.float32, torch.bfloat16, torch.float16)
Way = Callable[..., Tensor]
Norm = Callable[[Tensor], Tensor]
Projections = Callable[[int], Sequence[nn.Linear]]


def scaled_by_the_model(q: Tensor, k: Tensor, d_model: int) -> Tensor:
    """Divided by the width of the model, although the sum runs over d_head."""
    return q @ k.transpose(-2, -1) / math.sqrt(d_model)


def scaled_by_the_head(q: Tensor, k: Tensor, d_model: int) -> Tensor:
    """Divided by the width of a head, over which the products are summed."""
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])


def positions_by_the_batch(x: Tensor, table: Tensor) -> Tensor:
    """x is [batch, pos, d_model]: shape[0] counts sentences, so a batch of one only gets row 0."""
    return x + table[: x.shape[0]]


def positions_by_the_length(x: Tensor, table: Tensor) -> Tensor:
    """shape[1] counts positions."""
    return x + table[: x.shape[1]]


def norm_with_unbiased_variance(x: Tensor) -> Tensor:
    """torch's `var` divides by d - 1 unless told otherwise."""
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + 1e-5)


def norm_with_biased_variance(x: Tensor) -> Tensor:
    """LayerNorm divides by d."""
    variance = x.var(-1, keepdim=True, correction=0)
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(variance + 1e-5)


def one_module_three_times(d_model: int) -> Sequence[nn.Linear]:
    """A list times 3 holds the same object three times."""
    return [nn.Linear(d_model, d_model, bias=False)] * 3


def three_modules(d_model: int) -> Sequence[nn.Linear]:
    """Each module is created, and initialized, separately."""
    return [nn.Linear(d_model, d_model, bias=False) for _ in range(3)]


def norm_with_a_tiny_epsilon(x: Tensor) -> Tensor:
    """1e-12 is lost to rounding, and in float16 it is 0."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt(x.var(-1, keepdim=True, correction=0) + 1e-12)


def norm_in_float32(x: Tensor) -> Tensor:
    """Statistics in float32, an epsilon above its rounding error, and back to the dtype of x."""
    wide = x.float()
    centred = wide - wide.mean(-1, keepdim=True)
    return (centred / torch.sqrt(wide.var(-1, keepdim=True, correction=0) + 1e-5)).to(x.dtype)


def _scale(way: Way, traced: Trace | None = None) -> Measured:
    """16 keys, a head of 64 in a model of 512, unit-variance q and k; or the user's scores."""
    where = decoder_self if own_site(traced) else everywhere
    usual = traced and traced.config.score_divisor is None and traced.config.score_cap is None
    own, d_model = own_case(traced, where) if usual else None, 512
    q, k = fixed_scores(4, 8, 16, 64), fixed_scores(4, 8, 16, 64, seed=1)
    bias, name = torch.tensor(0.0), ""
    if own is not None and traced is not None:
        name, d_model = own_site(traced, where), traced.config.d_model
        site = traced.site(name)
        q, k = (torch.tensor(traced.activations[site.hook(what)])[None] for what in ("q", "k"))
        k = share_heads(q, k)
        # A positional bias (ALiBi, T5) is added after scaling and is not scaled itself.
        bias = torch.tensor(traced.activations.get(site.hook("bias"), 0.0))
    scores = way(q, k, d_model) + bias
    keep = torch.ones_like(scores, dtype=torch.bool) if own is None else own[1]
    pattern = masked_softmax(scores, keep)

    def nats(weights: Tensor) -> float:
        return float(entropy(weights.numpy()).mean()) * math.log(2)

    numbers: dict[Any, float | Tensor] = {
        "score_spread": scores[keep].std(),
        "entropy": nats(pattern),
        "equal_entropy": nats(masked_softmax(torch.zeros_like(scores), keep)),
    }
    return Measured(numbers, pattern[0], own is not None, name)


def _batch_positions(way: Way, traced: Trace | None = None) -> Measured:
    """Ten positions of a table, or the vectors that the user's model adds, if it adds any."""
    stack = (
        next((candidate for candidate in traced.stacks if candidate.stream == "tgt"), None)
        if traced
        else None
    )
    added = traced.activations.get(stack.hook("pos_embed")) if traced and stack else None
    table = sinusoidal_table(10, 8) if added is None else torch.tensor(added)
    rows = way(torch.zeros(1, *table.shape), table)[0]
    different = float(len(np.unique(rows.numpy(), axis=0)))
    return Measured({"different_positions": different}, rows, added is not None)


def _variance(way: Norm, traced: Trace | None = None) -> Measured:
    """The standard deviation of a normalized row, by width: 1 with the biased variance."""
    widths = ("2", "8", "64", "512")
    spreads = [way(fixed_table(1, int(n)).double()[0]).std(correction=0) for n in widths]
    numbers = {("output_spread", n): spread for n, spread in zip(widths, spreads, strict=True)}
    return Measured(numbers, torch.stack(spreads)[None], labels=widths)


def _embeddings(traced: Trace | None) -> Float[Tensor, "pos d"]:
    """The input of the user's first block, at most WIDTH features, normalized; or N(0, 1)."""
    if traced is None:
        return fixed_table(6, 16)
    stack = traced.stack("tgt")
    x = traced.activations[stack.hook("embed")] + traced.activations.get(stack.hook("pos_embed"), 0)
    x = torch.tensor(x[traced.tgt_valid], dtype=torch.float32)[:, :WIDTH]
    return nn.functional.layer_norm(x, x.shape[1:])


def _projections(way: Projections, traced: Trace | None = None) -> Measured:
    """The scores of fresh projections, and what they learn on a task: attend to the left."""
    x = _embeddings(traced)
    with seeded(0), torch.inference_mode():
        w_q, w_k, w_v = way(x.shape[1])
        scores = w_q(x) @ w_k(x).T / math.sqrt(x.shape[1])
    sizes = {id(linear.weight): linear.weight.numel() for linear in (w_q, w_k, w_v)}
    loss, asymmetry = learned(way)
    apart = (scores - scores.T).abs()
    numbers = {
        "parameters": float(sum(sizes.values())),
        "asymmetry": apart.max(),
        "asymmetry_learned": asymmetry,
        "loss_learned": loss,
    }
    words = np.asarray(traced.tgt_str_tokens)[traced.tgt_valid] if traced else "abcdef"
    labels = tuple(map(str, words))
    return Measured(numbers, apart.amax(0)[None], traced is not None, labels=labels)


@cache
def learned(build: Projections, steps: int = 150) -> tuple[float, float]:
    """Loss and largest |s - s^T| after training one head to predict each position's left neighbour.

    8 positions, 8 words in random order, no mask; the first position has no left neighbour and is
    excluded.
    """
    n, d = 8, 16
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(2, n, d, generator=generator)
    with seeded(0):
        w_q, w_k, w_v = build(d)
        out = nn.Linear(d, n)
    modules = nn.ModuleList([w_q, w_k, w_v, out])
    optimizer = torch.optim.Adam(modules.parameters(), lr=0.01)
    loss = scores = torch.zeros(())
    for _ in range(steps):
        words = torch.rand(16, n, generator=generator).argsort(-1)
        x = table[0][words] + table[1]
        scores = w_q(x) @ w_k(x).transpose(-2, -1) / math.sqrt(d)
        logits = out(scores.softmax(-1) @ w_v(x))
        loss = nn.functional.cross_entropy(logits[:, 1:].flatten(0, 1), words[:, :-1].flatten())
        optimizer.zero_grad()
        torch.autograd.backward([loss])
        optimizer.step()
    scores = scores.detach()
    return float(loss.detach()), float((scores - scores.transpose(-2, -1)).abs().max())


def _tiny_epsilon(way: Norm, traced: Trace | None = None) -> Measured:
    """A row of 0.1 in three dtypes; and a PAD row of zeros after the user's words, in float16."""
    numbers: dict[Any, float | Tensor] = {}
    for dtype in HALVES:
        row, name = torch.full((1, 512), 0.1, dtype=dtype), str(dtype).removeprefix("torch.")
        numbers["constant_row", name] = way(row).float().abs().max()
    words = _embeddings(traced)
    padded = torch.cat([words, torch.zeros(1, words.shape[1])]).half()
    numbers["pad_nan_rows", str(len(padded))] = nan_rows(way, padded)
    return Measured(numbers, own=traced is not None)


def nan_rows(norm: Norm, x: Float[Tensor, "pos d"]) -> float:
    """Rows with a NaN after a norm and unmasked attention without projections, in float32."""
    y = norm(x).float()
    z = (y @ y.T / math.sqrt(y.shape[1])).softmax(-1) @ y
    return float(z.isnan().any(-1).sum())


MODEL = (
    Case("model_scale", "model", _scale, scaled_by_the_model, scaled_by_the_head,
        plant_scale("model"),
    ),
    Case(
        "batch_positions", "model", _batch_positions, positions_by_the_batch,
        positions_by_the_length,
        plant_positions(lambda valid: torch.zeros_like(valid[:1], dtype=torch.long)), "added",
    ),
    Case(
        "unbiased_variance", "model", _variance, norm_with_unbiased_variance,
        norm_with_biased_variance,
    ),
    Case("one_projection", "model", _projections, one_module_three_times, three_modules),
    Case("tiny_epsilon", "model", _tiny_epsilon, norm_with_a_tiny_epsilon, norm_in_float32),
)  # fmt: skip
