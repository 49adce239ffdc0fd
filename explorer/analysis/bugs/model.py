"""Bugs inside a model other than masks: scale, positions, rotation, LayerNorm."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.analysis.blocks.norms_by_hand import layer_norm_backward
from explorer.analysis.bugs import card
from explorer.analysis.bugs.planting import plant_positions
from explorer.analysis.heads.reading import entropy
from explorer.analysis.mask_tests.probe import Subject
from explorer.numerics import masked_softmax
from explorer.runs.trace import Trace
from models.attention import share_heads
from models.hooks import NO_EDITS, Edits
from models.positions import rotate, rotation_at, sinusoidal_table
from models.rows import Rows
from models.transformer import Model


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


def rotated_by_head(x: Tensor) -> Tensor:
    """x is already [batch, head, pos, d_head], but axis 1 is still used as the position axis."""
    by_axis_1 = x.transpose(1, 2)
    rotation = rotation_at(torch.arange(by_axis_1.shape[2]), x.shape[-1])
    return rotate(by_axis_1, rotation).transpose(1, 2)


def rotated_by_position(x: Tensor) -> Tensor:
    """Axis 2 is the position axis."""
    return rotate(x, rotation_at(torch.arange(x.shape[2]), x.shape[-1]))


def norm_with_unbiased_variance(x: Tensor) -> Tensor:
    """torch's `var` divides by d - 1 unless told otherwise."""
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + 1e-5)


def norm_with_biased_variance(x: Tensor) -> Tensor:
    """LayerNorm divides by d."""
    variance = x.var(-1, keepdim=True, correction=0)
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(variance + 1e-5)


def backward_with_weight_outside(x: Tensor, weight: Tensor, grad_out: Tensor) -> Tensor:
    """The weight multiplies the finished gradient: right only if all weights are equal."""
    std = torch.sqrt(x.var(-1, keepdim=True, correction=0) + 1e-5)
    n = (x - x.mean(-1, keepdim=True)) / std
    g = grad_out
    return weight * (g - g.mean(-1, keepdim=True) - n * (g * n).mean(-1, keepdim=True)) / std


def backward_with_weight_inside(x: Tensor, weight: Tensor, grad_out: Tensor) -> Tensor:
    """The weight multiplies first, before the means are taken."""
    std = torch.sqrt(x.var(-1, keepdim=True, correction=0) + 1e-5)
    n = (x - x.mean(-1, keepdim=True)) / std
    g = grad_out * weight
    return (g - g.mean(-1, keepdim=True) - n * (g * n).mean(-1, keepdim=True)) / std


def _scale(traced: Trace | None = None) -> card.Demonstration:
    """16 keys, a head of 64 in a model of 512, unit-variance q and k; or the user's scores."""
    where = (
        card.decoder_self
        if traced and any(map(card.decoder_self, traced.sites))
        else card.everywhere
    )
    usual = traced and traced.config.score_divisor is None and traced.config.score_cap is None
    own = card.own_case(traced, where) if usual else None
    if own is not None and traced is not None:
        _, keep = own
        site, d_model = traced.site(card.own_site(traced, where)), traced.config.d_model
        q, k = (torch.tensor(traced.activations[site.hook(what)])[None] for what in ("q", "k"))
        k = share_heads(q, k)
        # A positional bias (ALiBi, T5) is added after scaling and is not scaled itself.
        bias = torch.tensor(traced.activations.get(site.hook("bias"), 0.0))
        bad = scaled_by_the_model(q, k, d_model) + bias
        good = scaled_by_the_head(q, k, d_model) + bias
    else:
        q, k = card.fixed_scores(4, 8, 16, 64), card.fixed_scores(4, 8, 16, 64, seed=1)
        bad, good = scaled_by_the_model(q, k, 512), scaled_by_the_head(q, k, 512)
        keep = torch.ones_like(good, dtype=torch.bool)
    bad_pattern, good_pattern = masked_softmax(bad, keep), masked_softmax(good, keep)

    def nats(pattern: Tensor) -> float:
        return float(entropy(pattern.numpy()).mean()) * math.log(2)

    equal = nats(masked_softmax(torch.zeros_like(good), keep))
    return card.Demonstration(
        figures=(
            card.Figure("score_spread", float(bad[keep].std()), float(good[keep].std())),
            card.Figure("entropy", nats(bad_pattern), nats(good_pattern)),
            card.Figure("equal_entropy", equal, equal),
        ),
        wrong=bad_pattern[0].numpy(),
        right=good_pattern[0].numpy(),
        own=own is not None,
        site=card.own_site(traced, where) if own is not None else "",
    )


def _plant_scale(model: Subject, rows: Rows) -> Edits:
    """Scale down the queries: this scales the products, but not a positional bias."""

    def smaller(layer: Any) -> Callable[[Tensor], Tensor]:
        return lambda q: q * layer.divisor / math.sqrt(layer.w_q.in_features)

    if not isinstance(model, Model):
        return NO_EDITS
    layers = {site: model.get_submodule(site.name) for site in model.attention_sites()}
    return Edits({site.hook("q"): smaller(layer) for site, layer in layers.items()})


def _batch_positions(traced: Trace | None = None) -> card.Demonstration:
    """Ten positions of a table, or the vectors that the user's model adds, if it adds any."""
    stack = next((each for each in traced.stacks if each.stream == "tgt"), None) if traced else None
    added = traced.activations.get(stack.hook("pos_embed")) if traced and stack else None
    table = sinusoidal_table(10, 8) if added is None else torch.tensor(added)
    zeros = torch.zeros(1, *table.shape)
    bad, good = positions_by_the_batch(zeros, table)[0], positions_by_the_length(zeros, table)[0]

    def different(rows: Tensor) -> float:
        return float(len(np.unique(rows.numpy(), axis=0)))

    return card.Demonstration(
        (card.Figure("different_positions", different(bad), different(good)),),
        bad.numpy(),
        good.numpy(),
        own=added is not None,
    )


def _rotation(traced: Trace | None = None) -> card.Demonstration:
    """As many heads as positions, so that no error is raised."""
    q, k = card.fixed_scores(1, 6, 6, 4), card.fixed_scores(1, 6, 6, 4, seed=1)
    plain, bad, good = (
        turn(q) @ turn(k).transpose(-2, -1) / 2
        for turn in (torch.clone, rotated_by_head, rotated_by_position)
    )
    return card.Demonstration(
        (
            card.Figure(
                "position_effect",
                float((bad - plain).abs().max()),
                float((good - plain).abs().max()),
            ),
        ),
        bad[0].softmax(-1).numpy(),
        good[0].softmax(-1).numpy(),
    )


def _variance(traced: Trace | None = None) -> card.Demonstration:
    """The standard deviation of a normalized row, by width: 1 with the biased variance."""
    widths = (2, 8, 64, 512)
    rows = [card.fixed_scores(1, 1, 1, width).double()[0, 0] for width in widths]
    spreads = [
        [float(norm(row).std(correction=0)) for row in rows]
        for norm in (norm_with_unbiased_variance, norm_with_biased_variance)
    ]
    return card.Demonstration(
        tuple(
            card.Figure("output_spread", bad, good, of=str(width))
            for width, bad, good in zip(widths, *spreads, strict=True)
        ),
        np.array(spreads[:1]),
        np.array(spreads[1:]),
        columns=tuple(map(str, widths)),
    )


def _backward_error(
    backward: Callable[[Tensor, Tensor, Tensor], Tensor], weight: Float[Tensor, " d"]
) -> float:
    """The largest error of dx, relative to the largest true dx."""
    x, grad_out = (card.fixed_scores(1, 1, 3, len(weight), seed).double()[0, 0] for seed in (0, 1))
    true = layer_norm_backward(x, weight, 1e-5, grad_out)[0]
    return float((backward(x, weight, grad_out) - true).abs().max() / true.abs().max())


def _backward(traced: Trace | None = None) -> card.Demonstration:
    """The error of the gradient if all weights are equal, and if they are not."""
    equal = torch.ones(8, dtype=torch.float64)
    unequal = torch.linspace(0.5, 2.0, 8, dtype=torch.float64)
    return card.Demonstration(
        tuple(
            card.Figure(
                name,
                _backward_error(backward_with_weight_outside, weight),
                _backward_error(backward_with_weight_inside, weight),
            )
            for name, weight in (("dx_error_equal", equal), ("dx_error_unequal", unequal))
        )
    )


MODEL = (
    card.Pitfall(
        id="model_scale",
        group="model",
        wrong=scaled_by_the_model,
        right=scaled_by_the_head,
        demonstrate=_scale,
        plant=_plant_scale,
    ),
    card.Pitfall(
        id="batch_positions",
        group="model",
        wrong=positions_by_the_batch,
        right=positions_by_the_length,
        demonstrate=_batch_positions,
        plant=plant_positions(lambda valid: torch.zeros_like(valid[:1], dtype=torch.long)),
        needs="added",
    ),
    card.Pitfall(
        id="rotated_heads",
        group="model",
        wrong=rotated_by_head,
        right=rotated_by_position,
        demonstrate=_rotation,
    ),
    card.Pitfall(
        id="unbiased_variance",
        group="model",
        wrong=norm_with_unbiased_variance,
        right=norm_with_biased_variance,
        demonstrate=_variance,
    ),
    card.Pitfall(
        id="norm_backward",
        group="model",
        wrong=backward_with_weight_outside,
        right=backward_with_weight_inside,
        demonstrate=_backward,
    ),
)
