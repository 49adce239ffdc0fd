"""Normalisation over the features of one token.

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
    """LayerNorm over the last axis, as `nn.LayerNorm`."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Float[Tensor, "*rest d_model"]) -> Float[Tensor, "*rest d_model"]:
        return nn.functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    """RMSNorm over the last axis, eps inside the root (`F.rms_norm` with an explicit eps)."""

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Float[Tensor, "*rest d_model"]) -> Float[Tensor, "*rest d_model"]:
        # Square in float32: 300 squared overflows float16.
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        rms = torch.sqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * (wide / rms).to(x.dtype)


class HeadsNorm(RMSNorm):
    """One RMSNorm over all heads of a query or key, `d_model` features in total (OLMo 2)."""

    def forward(self, x: Float[Tensor, "batch head pos d"]) -> Float[Tensor, "batch head pos d"]:
        whole = super().forward(x.transpose(1, 2).flatten(2))
        return whole.view(*whole.shape[:2], x.shape[1], -1).transpose(1, 2)


NORMS: dict[NormKind, type[LayerNorm] | type[RMSNorm]] = {
    "layernorm": LayerNorm,
    "rmsnorm": RMSNorm,
}
assert set(NORMS) == set(get_args(NormKind))
