"""Claims about norms, residuals and activations: placements, depth, statistics, GELU."""

import math
from typing import get_args

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
from explorer.library import LoadedModel
from explorer.runs.trace import Trace
from explorer.seeding import seeded
from models.blocks import EncoderBlock
from models.config import ModelConfig, NormPlacement
from models.feedforward import ACTIVATIONS
from models.norms import LayerNorm
from models.positions import sinusoidal_table

PLACEMENTS: tuple[NormPlacement, ...] = get_args(NormPlacement)


def _block(placement: NormPlacement, d_model: int) -> EncoderBlock:
    """A fresh block with Xavier matrices and zero biases, as whole models begin with."""
    config = ModelConfig(
        vocab_size=3, d_model=d_model, n_layers=1, n_heads=4, d_ff=4 * d_model,
        dropout=0.0, norm_placement=placement,
    )  # fmt: skip
    block = EncoderBlock(config)
    for module in block.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)
    return block


def original(loaded: LoadedModel, traced: Trace, progress: FractionDone) -> Finding:
    """Each placement beside torch's TransformerEncoderLayer of 2017, with the same weights."""
    rows = []
    with seeded(0), torch.inference_mode():
        x = torch.randn(2, 7, 32)
        for placement in PLACEMENTS:
            block = _block(placement, 32)
            theirs = _as_torch(block)
            rows.append(ResultRow(placement, (float((block(x) - theirs(x)).abs().max()),)))
    post, _, branch = (row.values[0] for row in rows)
    verdict = judged(branch < 1e-4, false=post < 1e-4 < branch)
    return Finding(verdict, ("difference",), tuple(rows), bars="difference")


def _as_torch(block: EncoderBlock) -> nn.TransformerEncoderLayer:
    """torch's layer (norm_first=False, as published) with the weights of ours."""
    attn, net = block.attn, block.ffn
    assert attn.w_q.bias is not None
    layer = nn.TransformerEncoderLayer(
        attn.w_q.in_features, attn.n_heads, net.w_up.out_features, 0.0, batch_first=True
    )
    ours = {
        "self_attn.in_proj_weight": torch.cat([w.weight for w in (attn.w_q, attn.w_k, attn.w_v)]),
        "self_attn.in_proj_bias": torch.cat([w.bias for w in (attn.w_q, attn.w_k, attn.w_v)]),
    }
    pairs = {
        "self_attn.out_proj": attn.w_o,
        "linear1": net.w_up,
        "linear2": net.w_down,
        "norm1": block.attn_norm,
        "norm2": block.ffn_norm,
    }
    for name, module in pairs.items():
        ours |= {f"{name}.{key}": value for key, value in module.state_dict().items()}
    layer.load_state_dict(ours)
    return layer


def batch_norm(loaded: LoadedModel, traced: Trace, progress: FractionDone) -> Finding:
    """The reader's vectors through both norms, alone and with a padded sentence beside them."""
    site = traced.sites[0]
    x = torch.tensor(traced.activations[site.block_hook("resid_pre")])
    d_model = x.shape[-1]
    other = torch.cat([x.flip(0) * 2, torch.zeros_like(x)])  # another sentence, and its padding
    with torch.inference_mode():
        layer, batch = LayerNorm(d_model), nn.BatchNorm1d(d_model)
        alone_layer, alone_batch = layer(x), batch(x)
        beside = torch.cat([x, other])
        moved_layer = float((layer(beside)[: len(x)] - alone_layer).abs().max())
        moved_batch = float((batch(beside)[: len(x)] - alone_batch).abs().max())
        try:
            batch(x[:1])
            single = 0.0
        except ValueError:  # one row has no variance
            single = math.nan
        modes = float((batch.eval()(x) - alone_batch).abs().max())
    rows = (
        ResultRow("another_sentence", (moved_batch, moved_layer)),
        ResultRow("one_token", (single, 0.0)),
        ResultRow("training_and_use", (modes, 0.0)),
    )
    unstable = moved_batch > 1e-3 > moved_layer
    works_in_use = math.isfinite(modes)
    verdict = judged(unstable and not works_in_use, false=not unstable)
    return Finding(verdict, ("batch_norm", "layer_norm"), rows)


def gelu_tanh(loaded: LoadedModel, traced: Trace, progress: FractionDone) -> Finding:
    """The largest difference of the exact GELU and its tanh form, and where it is."""
    x = torch.linspace(-6, 6, 4801, dtype=torch.float64)
    apart = (ACTIVATIONS["gelu"](x) - ACTIVATIONS["gelu_tanh"](x)).abs()
    largest, exact = float(apart.max()), ACTIVATIONS["gelu"](x)
    rows = (
        ResultRow("largest_difference", (largest,)),
        ResultRow("at_x", (abs(float(x[apart.argmax()])),)),
        ResultRow("gelu_minimum", (float(exact.min()),)),
        ResultRow("gelu_minimum_at", (float(x[exact.argmin()]),)),
    )
    curve = Curve(x.numpy()[::40], apart.numpy()[None, ::40], ("difference",), "x", "difference")
    return Finding(judged(True, false=largest >= 1e-3), ("value",), rows, curve)


DEPTH, WIDTH, LENGTH, SYMBOLS, STEPS = 12, 32, 8, 10, 60


def warmup(loaded: LoadedModel, traced: Trace, progress: FractionDone) -> Finding:
    """Twelve layers learn to reverse ten symbols with Adam at 3e-3 from the first step on."""
    rows, curves = [], []
    for turn, placement in enumerate(PLACEMENTS):
        losses = _train(placement, part_of(progress, turn, 3))
        curves.append(losses)
        rows.append(ResultRow(placement, (losses[0], float(np.mean(losses[-5:])))))
    # A model that learned nothing has the loss of guessing, ln 10.
    post, pre, _ = (row.values[1] < 0.9 * math.log(SYMBOLS) for row in rows)
    verdict = judged(pre and not post, false=not pre)
    curve = Curve(np.arange(1, STEPS + 1), np.array(curves), PLACEMENTS, "step", "loss")
    return Finding(verdict, ("loss_before", "loss_after"), tuple(rows), curve)


def _train(placement: NormPlacement, progress: FractionDone) -> list[float]:
    generator = torch.Generator().manual_seed(0)
    with torch.inference_mode(False), torch.enable_grad():
        with seeded(0):
            embed = nn.Embedding(SYMBOLS, WIDTH)
            blocks = nn.Sequential(*(_block(placement, WIDTH) for _ in range(DEPTH)))
            out = nn.Linear(WIDTH, SYMBOLS)
        norm = nn.Identity() if placement == "post" else LayerNorm(WIDTH)
        table = sinusoidal_table(LENGTH, WIDTH)
        net = nn.ModuleList([embed, blocks, norm, out])
        optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
        losses = []
        for step in range(STEPS):
            x = torch.randint(SYMBOLS, (32, LENGTH), generator=generator)
            logits = out(norm(blocks(embed(x) + table)))
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), x.flip(1).flatten())
            optimizer.zero_grad()
            torch.autograd.backward([loss])
            optimizer.step()
            losses.append(loss.item())
            progress((step + 1) / STEPS)
    return losses


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
            blocks = nn.Sequential(*(_block(placement, WIDTH) for _ in range(depth)))
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


BLOCKS = (
    Claim("original", "blocks", original, own=False),
    Claim("warmup", "blocks", warmup, own=False, slow=True),
    Claim("deep_pre", "blocks", deep_pre, own=False, slow=True),
    Claim("batch_norm", "blocks", batch_norm),
    Claim("gelu_tanh", "blocks", gelu_tanh, own=False),
)
