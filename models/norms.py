"""Normalisation over the features of one token.

LayerNorm (Ba et al. 2016): y = weight * (x - mean) / sqrt(var + eps) + bias, with the biased
variance (divided by d_model, not d_model - 1) and eps inside the root.
RMSNorm (Zhang & Sennrich 2019): y = weight * x / sqrt(mean(x^2) + eps); no mean, no bias.
"""

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Norm(nn.Module):
    """A norm over the last axis: y = weight * (x - mean) / scale(x - mean) + bias.

    A kind overrides `scale`. Without `centres` it has neither mean nor bias.
    """

    centres: ClassVar[bool] = False
    bias: nn.Parameter | None

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model)) if self.centres else None

    def scale(self, x: Float[Tensor, "*rest d_model"]) -> Float[Tensor, "*rest 1"]:
        """The divisor of the centred x, with eps inside the root."""
        return torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def centred(self, x: Float[Tensor, "*rest d_model"]) -> Float[Tensor, "*rest d_model"]:
        """x minus its mean, if the norm subtracts it."""
        return x - x.mean(-1, keepdim=True) if self.centres else x

    def forward(self, x: Float[Tensor, "*rest d_model"]) -> Float[Tensor, "*rest d_model"]:
        # Square in float32: 300 squared overflows float16.
        wide = self.centred(x.to(torch.promote_types(x.dtype, torch.float32)))
        y = self.weight * (wide / self.scale(wide)).to(x.dtype)
        return y if self.bias is None else y + self.bias


class LayerNorm(Norm):
    """LayerNorm, computed by `F.layer_norm`."""

    centres = True

    def forward(self, x: Float[Tensor, "*rest d_model"]) -> Float[Tensor, "*rest d_model"]:
        return nn.functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class RMSNorm(Norm):
    """RMSNorm (`F.rms_norm` with an explicit eps)."""

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__(d_model, eps)


class HeadsNorm(RMSNorm):
    """One RMSNorm over all heads of a query or key, `d_model` features in total (OLMo 2)."""

    def forward(self, x: Float[Tensor, "batch head pos d"]) -> Float[Tensor, "batch head pos d"]:
        whole = super().forward(x.transpose(1, 2).flatten(2))
        return whole.view(*whole.shape[:2], x.shape[1], -1).transpose(1, 2)


NORMS: dict[str, type[Norm]] = {"layernorm": LayerNorm, "rmsnorm": RMSNorm}
