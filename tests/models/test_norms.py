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
def test_layer_norm_is_torchs(shape, dtype, atol, eps):
    x, weight, bias = inputs(shape, dtype)
    norm = LayerNorm(shape[-1], eps).to(dtype)
    norm.weight.data, norm.bias.data = weight, bias
    expected = F.layer_norm(x, (shape[-1],), weight, bias, eps)
    torch.testing.assert_close(norm(x), expected, atol=atol, rtol=0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-13), (torch.float32, 2e-6)])
@pytest.mark.parametrize("eps", [1e-6, 0.3])
def test_rms_norm_is_torchs(shape, dtype, atol, eps):
    x, weight, _ = inputs(shape, dtype)
    norm = RMSNorm(shape[-1], eps).to(dtype)
    norm.weight.data = weight
    expected = F.rms_norm(x, (shape[-1],), weight, eps)
    torch.testing.assert_close(norm(x), expected, atol=atol, rtol=0)


@pytest.mark.parametrize("d_model", [2, 8, 64])
def test_layer_norm_divides_the_variance_by_d_model(d_model):
    x = torch.randn(3, d_model, dtype=torch.float64)
    out = LayerNorm(d_model, eps=1e-12).double()(x)
    # With the unbiased variance this would be (d_model - 1) / d_model: half of it at 2.
    torch.testing.assert_close(out.var(-1, correction=0), torch.ones(3).double(), atol=1e-6, rtol=0)


def test_eps_stands_inside_the_root():
    # x = (2, -2): variance 4 and, with eps = 12, a root of 4: 2 / 4, not 2 / (2 + 12).
    x = torch.tensor([[2.0, -2.0]])
    assert LayerNorm(2, eps=12.0)(x).tolist() == [[0.5, -0.5]]
    assert RMSNorm(2, eps=12.0)(x).tolist() == [[0.5, -0.5]]


def test_rms_norm_does_not_centre():
    x = torch.full((1, 4), 3.0)
    torch.testing.assert_close(RMSNorm(4)(x), torch.ones(1, 4))
    torch.testing.assert_close(LayerNorm(4)(x), torch.zeros(1, 4))


@pytest.mark.parametrize("kind", NORMS)
def test_a_tokens_norm_depends_on_that_token_alone(kind, scatter):
    norm = scatter(NORMS[kind](8))
    x = torch.randn(3, 5, 8)
    before = norm(x)
    x[1, 2] *= 100
    after = norm(x)
    changed = (before != after).any(-1)
    assert not changed[0].any()
    assert changed.sum() <= 1


@pytest.mark.parametrize("kind", NORMS)
def test_half_precision_does_not_overflow(kind):
    # 300 squared is beyond float16, whose largest number is 65504.
    x = torch.tensor([[300.0, -300.0, 300.0, -300.0]], dtype=torch.float16)
    out = NORMS[kind](4).half()(x)
    assert out.dtype == torch.float16
    assert out.tolist() == [[1.0, -1.0, 1.0, -1.0]]


@pytest.mark.parametrize("kind", NORMS)
def test_the_modules_gradients_are_right_by_finite_differences(kind, scatter):
    norm = scatter(NORMS[kind](6).double())
    x = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(norm, (x,))


def test_an_untouched_norm_has_weight_one_and_bias_zero():
    assert LayerNorm(3).weight.tolist() == RMSNorm(3).weight.tolist() == [1.0, 1.0, 1.0]
    assert LayerNorm(3).bias.tolist() == [0.0, 0.0, 0.0]
    assert [name for name, _ in RMSNorm(3).named_parameters()] == ["weight"]
