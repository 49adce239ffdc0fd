"""The norms of `models.norms` written out, with backward passes derived by hand."""

import torch
from jaxtyping import Float
from torch import Tensor


def layer_norm_forward(
    x: Float[Tensor, "*rest d_model"],
    weight: Float[Tensor, " d_model"],
    bias: Float[Tensor, " d_model"],
    eps: float,
) -> Float[Tensor, "*rest d_model"]:
    """LayerNorm step by step, following the formula in `models.norms`."""
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.pow(2).mean(-1, keepdim=True)  # biased: divided by d_model
    return weight * (centred / torch.sqrt(variance + eps)) + bias


def rms_norm_forward(
    x: Float[Tensor, "*rest d_model"], weight: Float[Tensor, " d_model"], eps: float
) -> Float[Tensor, "*rest d_model"]:
    """RMSNorm step by step, following the formula in `models.norms`."""
    return weight * (x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps))


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
    """The gradients (dx, dweight) of RMSNorm: those of LayerNorm without the mean terms."""
    rms = torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    n = x / rms
    g = grad_out * weight
    dx = (g - n * (g * n).mean(-1, keepdim=True)) / rms
    return dx, (grad_out * n).reshape(-1, x.shape[-1]).sum(0)
