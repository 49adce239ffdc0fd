"""Claims about blocks: where the original Transformer normalizes, and GELU by tanh."""

from collections.abc import Callable
from typing import get_args

import numpy as np
import torch
from torch import Tensor, nn

from explorer.analysis.cases.backend import module_like
from explorer.analysis.cases.case import Curves, Result, ResultRow, judged
from explorer.analysis.cases.training import fresh_block
from explorer.runs.passes import seeded
from models.blocks import Block
from models.config import NormPlacement
from models.feedforward import ACTIVATIONS

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
