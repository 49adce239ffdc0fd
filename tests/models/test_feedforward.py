"""Feed-forward nets against torch's functions, written out once more in one line each."""

import math

import pytest
import torch
from torch.nn import functional as F

from models.feedforward import ACTIVATIONS, FEEDFORWARDS, GATED, FeedForward
from models.hooks import Edits, name_hook_points, visiting

D_MODEL, D_FF = 6, 10
BY_HAND = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu_quick": lambda x: x / (1 + torch.exp(-1.702 * x)),
    "gelu_tanh": lambda x: (
        0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "silu": lambda x: x * torch.sigmoid(x),
}


def net(kind, scatter, **options):
    ffn = FeedForward(D_MODEL, D_FF, kind, **options)
    scatter(ffn)
    name_hook_points(ffn)
    return ffn.double().eval()


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_their_formulas(name):
    x = torch.linspace(-6, 6, 400, dtype=torch.float64)
    torch.testing.assert_close(ACTIVATIONS[name](x), BY_HAND[name](x), atol=2e-15, rtol=0)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", FEEDFORWARDS)
def test_a_net_is_its_formula_step_by_step(kind, bias, scatter, record):
    ffn = net(kind, scatter, bias=bias)
    x = torch.randn(2, 3, D_MODEL).double()
    seen = record(lambda: ffn(x), lambda name: True)
    activation = BY_HAND[GATED.get(kind, kind)]
    pre = F.linear(x, ffn.w_up.weight, ffn.w_up.bias)
    post = activation(pre)
    if kind in GATED:
        gate = activation(F.linear(x, ffn.w_gate.weight, ffn.w_gate.bias))
        post = gate * pre
        torch.testing.assert_close(seen["hook_gate"], gate)
    torch.testing.assert_close(seen["hook_pre"], pre)
    torch.testing.assert_close(seen["hook_post"], post)
    expected = F.linear(post, ffn.w_down.weight, ffn.w_down.bias)
    torch.testing.assert_close(ffn(x), expected, atol=1e-14, rtol=0)
    assert [linear.bias is not None for linear in ffn.children() if hasattr(linear, "bias")] == (
        [bias] * (3 if kind in GATED else 2)
    )
    with visiting(Edits({"hook_post": torch.zeros_like})):
        torch.testing.assert_close(ffn(x), F.linear(0 * post, ffn.w_down.weight, ffn.w_down.bias))


def test_dropout_acts_in_training_only(scatter):
    ffn = net("relu", scatter, dropout=0.5)
    x = torch.randn(2, 3, D_MODEL).double()
    assert torch.equal(ffn(x), ffn(x))
    ffn.train()
    assert not torch.equal(ffn(x), ffn(x))


def test_an_unknown_activation_is_refused():
    with pytest.raises(ValueError, match="activation is 'tanh'"):
        FeedForward(D_MODEL, D_FF, "tanh")
