"""Normalisation over the features of one token, forward and, by hand, backward.

LayerNorm (Ba et al. 2016): y = weight * (x - mean) / sqrt(var + eps) + bias, with the biased
variance (divided by d_model, not d_model - 1) and eps inside the root.
RMSNorm (Zhang & Sennrich 2019): y = weight * x / sqrt(mean(x^2) + eps); no mean, no bias.
"""

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

NormKind = Literal["layernorm", "rmsnorm"]


class LayerNorm(nn.Module):
    """LayerNorm over the last axis. The same numbers as `nn.LayerNorm`, written out."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Float[Tensor, "*rest d_model"]) -> Float[Tensor, "*rest d_model"]:
        # torch's fused kernel computes just the formula above, 5 times faster than spelling it
        # out; `layer_norm_forward` below is the spelt-out twin and a test holds them equal.
        return nn.functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    """RMSNorm over the last axis, eps inside the root (`F.rms_norm` with an explicit eps)."""

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Float[Tensor, "*rest d_model"]) -> Float[Tensor, "*rest d_model"]:
        # Written out: F.rms_norm has no fused CPU kernel and is several times slower than this.
        # Half precision is squared in float32: 300 squared is already infinite in float16.
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        rms = torch.sqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * (wide / rms).to(x.dtype)


NORMS: dict[NormKind, type[LayerNorm] | type[RMSNorm]] = {
    "layernorm": LayerNorm,
    "rmsnorm": RMSNorm,
}
assert set(NORMS) == set(get_args(NormKind))


def layer_norm_forward(
    x: Float[Tensor, "*rest d_model"],
    weight: Float[Tensor, " d_model"],
    bias: Float[Tensor, " d_model"],
    eps: float,
) -> Float[Tensor, "*rest d_model"]:
    """LayerNorm step by step, as the module docstring has it."""
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.pow(2).mean(-1, keepdim=True)  # biased: divided by d_model
    return weight * (centred / torch.sqrt(variance + eps)) + bias


def layer_norm_backward(
    x: Float[Tensor, "*rest d_model"],
    weight: Float[Tensor, " d_model"],
    eps: float,
    grad_out: Float[Tensor, "*rest d_model"],
) -> tuple[Float[Tensor, "*rest d_model"], Float[Tensor, " d_model"], Float[Tensor, " d_model"]]:
    """The gradients (dx, dweight, dbias) of LayerNorm, given the gradient of its output.

    With std = sqrt(var + eps), n = (x - mean) / std and g = grad_out * weight,
        dx = (g - mean(g) - n * mean(g * n)) / std,
    so the weight multiplies *before* the Jacobian of the normalisation; applying it afterwards
    is right only while all weights are equal, as they are at initialisation.
    """
    std = torch.sqrt(x.var(-1, keepdim=True, correction=0) + eps)
    n = (x - x.mean(-1, keepdim=True)) / std
    g = grad_out * weight
    dx = (g - g.mean(-1, keepdim=True) - n * (g * n).mean(-1, keepdim=True)) / std
    d_model = x.shape[-1]
    dweight = (grad_out * n).reshape(-1, d_model).sum(0)
    dbias = grad_out.reshape(-1, d_model).sum(0)
    return dx, dweight, dbias


def rms_norm_backward(
    x: Float[Tensor, "*rest d_model"],
    weight: Float[Tensor, " d_model"],
    eps: float,
    grad_out: Float[Tensor, "*rest d_model"],
) -> tuple[Float[Tensor, "*rest d_model"], Float[Tensor, " d_model"]]:
    """The gradients (dx, dweight) of RMSNorm: as LayerNorm's, without the terms of the mean."""
    rms = torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    n = x / rms
    g = grad_out * weight
    dx = (g - n * (g * n).mean(-1, keepdim=True)) / rms
    return dx, (grad_out * n).reshape(-1, x.shape[-1]).sum(0)
