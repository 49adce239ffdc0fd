"""Scores before training: how the initialization scales q . k, and why the layout of W matters.

A fresh model of the same shape reads the same rows. If the entries of W_Q and W_K are drawn
independently around 0 with variances v_q and v_k, q_i . k_j has mean 0 and variance d_head v_q v_k
|x_i|^2 |x_j|^2, so the scaled score has variance v_q v_k |x_i|^2 |x_j|^2. Xavier's variance is 2 /
(fan_in + fan_out), and fan_out is the height of the matrix *as it is stored*: one W_qkv of 3 d rows
gets a smaller variance than three matrices of d rows each. Glorot & Bengio 2010; torch's own
default (He et al. 2015 with a = sqrt 5) depends on fan_in only.
"""

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from explorer.runs.passes import seeded
from models.attention import Attention
from models.config import ModelConfig
from models.transformer import Model, build_model

Init = Literal["ours", "xavier", "torch", "gpt2", "unit"]


INITS: tuple[Init, ...] = get_args(Init)


Storage = Literal["one", "fused", "per_head"]


STORAGES: tuple[Storage, ...] = get_args(Storage)


OTHERS, PROJECTIONS = 1000, 2000  # seeds of their own: W_Q must not repeat the embeddings' numbers


GPT2_STD = 0.02


def bias_std(init: Init, fan_in: int) -> float:
    """The standard deviation of a bias: U(+-1 / sqrt(fan_in)) in `nn.Linear`, and under Xavier."""
    return 1 / math.sqrt(3 * fan_in) if init in ("xavier", "torch") else 0.0


def fresh_model(config: ModelConfig, init: Init, seed: int, storage: Storage = "one") -> Model:
    """A fresh model of this config, initialized as `init` says; in eval mode, without gradients.

    ours: this library's initialization (see `models.transformer`). xavier: every parameter with
    more than one axis, embeddings included. torch: the defaults of `nn.Linear` and `nn.Embedding`,
    N(0, 1) for the latter. gpt2: everything N(0, 0.02^2), biases 0. unit: ours, but with embeddings
    N(0, 1). W_Q, W_K and W_V are drawn as described in `draw_projections`.
    """
    with seeded(seed):
        model = build_model(config).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(OTHERS + seed)
    tied = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    for module in model.modules():
        if isinstance(module, nn.Linear):
            if id(module.weight) not in tied:
                _draw(module.weight, init, generator)
            if module.bias is not None and (width := bias_std(init, module.in_features)):
                limit = width * math.sqrt(3)
                nn.init.uniform_(module.bias, -limit, limit, generator=generator)
        elif isinstance(module, nn.Embedding) and init in ("xavier", "gpt2"):
            _draw(module.weight, init, generator)
        elif isinstance(module, nn.Embedding) and init in ("torch", "unit"):
            nn.init.normal_(module.weight, generator=generator)
    for name, parameter in model.named_parameters():
        if name.endswith("positions.weight") and init in ("xavier", "gpt2"):
            _draw(parameter, init, generator)
    draw_projections(model, init, storage, seed)
    return model


def _draw(weight: Tensor, init: Init, generator: torch.Generator) -> None:
    """Redraw one stored matrix [out, in] in place."""
    if init == "torch":
        nn.init.kaiming_uniform_(weight, a=math.sqrt(5), generator=generator)
    elif init == "gpt2":
        nn.init.normal_(weight, std=GPT2_STD, generator=generator)
    else:
        nn.init.xavier_uniform_(weight, generator=generator)


def draw_projections(model: Model, init: Init, storage: Storage, seed: int) -> None:
    """Redraw every W_Q, W_K and W_V of a model in place, as matrices of the given storage layout.

    They are copied into the model's own three matrices. The fused W_qkv contains all three, also in
    cross-attention, as in `nn.MultiheadAttention`. Nothing else is changed.
    """
    generator = torch.Generator().manual_seed(PROJECTIONS + seed)
    for module in model.modules():
        if not isinstance(module, Attention):
            continue
        weights = [linear.weight for linear in (module.w_q, module.w_k, module.w_v)]
        stacked = torch.empty(sum(map(len, weights)), weights[0].shape[1])
        heights = {
            "one": [len(weight) for weight in weights],
            "fused": [len(stacked)],
            "per_head": [module.d_head] * (len(stacked) // module.d_head),
        }
        for part in torch.split(stacked, heights[storage]):
            _draw(part, init, generator)
        for weight, drawn in zip(weights, torch.split(stacked, heights["one"]), strict=True):
            weight.copy_(drawn)
