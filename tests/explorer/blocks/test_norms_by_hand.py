"""LayerNorm and RMSNorm spelt out, and their hand-written backward passes, against torch."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from explorer.analysis.blocks.norms_by_hand import (
    layer_norm_backward,
    layer_norm_forward,
    rms_norm_backward,
    rms_norm_forward,
)

SHAPES = [(8,), (5, 8), (3, 5, 8), (2, 3, 5, 8)]


def inputs(
    shape: tuple[int, ...], dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    x = 3 * torch.randn(shape, dtype=dtype) + 1
    weight = torch.linspace(-1.5, 2.5, shape[-1], dtype=dtype)
    bias = torch.linspace(2.0, -1.0, shape[-1], dtype=dtype)
    return x, weight, bias


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-13), (torch.float32, 2e-6)])
@pytest.mark.parametrize("eps", [1e-5, 0.3])
def test_layer_norm_forward_is_torchs(
    shape: tuple[int, ...], dtype: torch.dtype, atol: float, eps: float
) -> None:
    x, weight, bias = inputs(shape, dtype)
    expected = F.layer_norm(x, (shape[-1],), weight, bias, eps)
    torch.testing.assert_close(
        layer_norm_forward(x, weight, bias, eps), expected, atol=atol, rtol=0
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("eps", [1e-5, 0.3])
def test_layer_norm_backward_is_autograds(shape: tuple[int, ...], eps: float) -> None:
    x, weight, bias = inputs(shape)
    grad_out = torch.randn_like(x)
    leaves = [tensor.clone().requires_grad_() for tensor in (x, weight, bias)]
    F.layer_norm(leaves[0], (shape[-1],), leaves[1], leaves[2], eps).backward(grad_out)
    for ours, leaf in zip(layer_norm_backward(x, weight, eps, grad_out), leaves, strict=True):
        torch.testing.assert_close(ours, leaf.grad, atol=1e-12, rtol=0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("eps", [1e-6, 0.3])
def test_rms_norm_is_torchs_and_its_backward_autograds(shape: tuple[int, ...], eps: float) -> None:
    x, weight, _ = inputs(shape)
    grad_out = torch.randn_like(x)
    leaves = [tensor.clone().requires_grad_() for tensor in (x, weight)]
    out = F.rms_norm(leaves[0], (shape[-1],), leaves[1], eps)
    torch.testing.assert_close(rms_norm_forward(x, weight, eps), out.detach(), atol=1e-13, rtol=0)
    out.backward(grad_out)
    for ours, leaf in zip(rms_norm_backward(x, weight, eps, grad_out), leaves, strict=True):
        torch.testing.assert_close(ours, leaf.grad, atol=1e-12, rtol=0)
