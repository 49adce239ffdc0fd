"""Norms against torch; norm weights are never uniform."""

import pytest
import torch
from torch.nn import functional as F

from models.norms import NORMS, LayerNorm, RMSNorm

SHAPES = [(8,), (5, 8), (3, 5, 8), (2, 3, 5, 8)]


def inputs(shape, dtype=torch.float64):
    x = 3 * torch.randn(shape, dtype=dtype) + 1
    weight = torch.linspace(-1.5, 2.5, shape[-1], dtype=dtype)
    bias = torch.linspace(2.0, -1.0, shape[-1], dtype=dtype)
    return x, weight, bias


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-13), (torch.float32, 2e-6)])
@pytest.mark.parametrize("eps", [1e-5, 0.3])
def test_norms_are_torchs(shape, dtype, atol, eps):
    x, weight, bias = inputs(shape, dtype)
    layer, rms = (kind(shape[-1], eps).to(dtype) for kind in (LayerNorm, RMSNorm))
    layer.weight.data, layer.bias.data, rms.weight.data = weight, bias, weight
    expected = F.layer_norm(x, weight.shape, weight, bias, eps)
    torch.testing.assert_close(layer(x), expected, atol=atol, rtol=0)
    expected = F.rms_norm(x, weight.shape, weight, eps)
    torch.testing.assert_close(rms(x), expected, atol=atol, rtol=0)


def test_eps_stands_inside_the_root():
    # x = (2, -2): variance 4 and, with eps = 12, a root of 4: 2 / 4, not 2 / (2 + 12).
    x = torch.tensor([[2.0, -2.0]])
    assert LayerNorm(2, eps=12.0)(x).tolist() == [[0.5, -0.5]]
    assert RMSNorm(2, eps=12.0)(x).tolist() == [[0.5, -0.5]]


@pytest.mark.parametrize("kind", NORMS)
def test_half_precision_does_not_overflow(kind):
    # 300 squared is beyond float16, whose largest number is 65504.
    x = torch.tensor([[300.0, -300.0, 300.0, -300.0]], dtype=torch.float16)
    out = NORMS[kind](4).half()(x)
    assert out.dtype == torch.float16
    assert out.tolist() == [[1.0, -1.0, 1.0, -1.0]]


def test_an_untouched_norm_has_weight_one_and_bias_zero():
    assert LayerNorm(3).weight.tolist() == RMSNorm(3).weight.tolist() == [1.0, 1.0, 1.0]
    assert LayerNorm(3).bias.tolist() == [0.0, 0.0, 0.0]
    assert [name for name, _ in RMSNorm(3).named_parameters()] == ["weight"]
