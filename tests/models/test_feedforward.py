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


def test_exact_and_tanh_gelu_differ_as_documented():
    x = torch.linspace(-6, 6, 10001, dtype=torch.float64)
    difference = (ACTIVATIONS["gelu"](x) - ACTIVATIONS["gelu_tanh"](x)).abs()
    assert 4.7e-4 < difference.max() < 4.8e-4
    exact = ACTIVATIONS["gelu"](x)
    assert exact.min().item() == pytest.approx(-0.170, abs=5e-4)
    assert x[exact.argmin()].item() == pytest.approx(-0.752, abs=2e-3)


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("relu", F.relu),
        ("gelu", F.gelu),
        ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh")),
        ("silu", F.silu),
    ],
)
def test_a_plain_net_is_down_activation_up(kind, function, scatter):
    ffn = net(kind, scatter, bias=True)
    x = torch.randn(2, 3, D_MODEL).double()
    hidden = function(x @ ffn.w_up.weight.T + ffn.w_up.bias)
    expected = hidden @ ffn.w_down.weight.T + ffn.w_down.bias
    torch.testing.assert_close(ffn(x), expected, atol=1e-14, rtol=0)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("kind", "name"), [("swiglu", "silu"), ("geglu", "gelu"), ("geglu_tanh", "gelu_tanh")]
)
def test_a_gated_net_gates_with_its_activation(kind, name, bias, scatter):
    ffn = net(kind, scatter, bias=bias)
    x = torch.randn(2, 3, D_MODEL).double()
    gate, up = F.linear(x, ffn.w_gate.weight), F.linear(x, ffn.w_up.weight)
    if bias:
        gate, up = gate + ffn.w_gate.bias, up + ffn.w_up.bias
    expected = F.linear(BY_HAND[name](gate) * up, ffn.w_down.weight, ffn.w_down.bias)
    torch.testing.assert_close(ffn(x), expected, atol=1e-14, rtol=0)


@pytest.mark.parametrize("kind", FEEDFORWARDS)
def test_every_token_is_treated_by_itself(kind, scatter):
    ffn = net(kind, scatter)
    x = torch.randn(2, 5, D_MODEL).double()
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(ffn(x[:, order]), ffn(x)[:, order])


@pytest.mark.parametrize("kind", FEEDFORWARDS)
def test_bias_is_an_option(kind):
    without = FeedForward(D_MODEL, D_FF, kind, bias=False)
    n_matrices = 3 if kind in GATED else 2
    assert sum(p.numel() for p in without.parameters()) == n_matrices * D_MODEL * D_FF
    biased = FeedForward(D_MODEL, D_FF, kind, bias=True)
    n_biases = (n_matrices - 1) * D_FF + D_MODEL
    assert sum(p.numel() for p in biased.parameters()) == n_matrices * D_MODEL * D_FF + n_biases


@pytest.mark.parametrize("kind", FEEDFORWARDS)
def test_hook_post_is_what_w_down_reads(kind, scatter, record):
    ffn = net(kind, scatter, bias=True)
    x = torch.randn(2, 3, D_MODEL).double()
    seen = record(lambda: ffn(x), lambda name: True)
    torch.testing.assert_close(seen["hook_pre"], ffn.w_up(x))
    if kind in GATED:
        torch.testing.assert_close(seen["hook_gate"], ffn.activation(ffn.w_gate(x)))
        torch.testing.assert_close(seen["hook_post"], seen["hook_gate"] * seen["hook_pre"])
    else:
        torch.testing.assert_close(seen["hook_post"], BY_HAND[kind](seen["hook_pre"]))
    torch.testing.assert_close(ffn.w_down(seen["hook_post"]), ffn(x))
    with visiting(Edits({"hook_post": torch.zeros_like})):
        torch.testing.assert_close(ffn(x), ffn.w_down.bias.expand(x.shape))


@pytest.mark.parametrize("kind", FEEDFORWARDS)
def test_dropout_acts_in_training_only(kind, scatter):
    ffn = net(kind, scatter, dropout=0.5)
    x = torch.randn(2, 3, D_MODEL).double()
    assert torch.equal(ffn(x), ffn(x))
    ffn.train()
    assert not torch.equal(ffn(x), ffn(x))


def test_an_unknown_activation_is_refused():
    with pytest.raises(ValueError, match="activation is 'tanh'"):
        FeedForward(D_MODEL, D_FF, "tanh")
