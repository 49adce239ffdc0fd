"""Blocks: where the norm stands, by formula and by what the hook points see."""

import math

import pytest
import torch
from torch.nn import functional as F

from models.blocks import Block, DecoderBlock
from models.feedforward import ACTIVATIONS, FEEDFORWARDS, GATED, FeedForward
from models.hooks import Edits, Record, name_hook_points, visiting
from models.masks import causal_mask, padding_mask
from models.norms import NORMS, LayerNorm, RMSNorm

B, T, S, D_MODEL = 3, 5, 7, 24
PLACEMENTS = {
    "post": lambda x, f, norm: norm(x + f(x)),
    "pre": lambda x, f, norm: x + f(norm(x)),
    "sublayer": lambda x, f, norm: x + norm(f(x)),
}
SRC_VALID = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0]]) == 1


@pytest.fixture
def block(tiny_config, scatter):
    def make(kind, **changes):
        made = scatter(kind(tiny_config(**changes)))
        name_hook_points(made)
        return made.double().eval()

    return make


def seen_by(forward):
    record = Record(lambda name: "." not in name)
    with visiting(record):
        out = forward()
    return out, {name.removeprefix("hook_"): t for name, t in record.activations.items()}


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("ffn", ["relu", "swiglu"])
def test_an_encoder_block_is_its_formula(block, placement, norm, ffn):
    made = block(Block, norm_placement=placement, norm=norm, ffn=ffn)
    x = torch.randn(B, T, D_MODEL).double()
    around = PLACEMENTS[placement]
    mid = around(x, lambda h: made.attn(h, mask=causal_mask(T)), made.attn_norm)
    expected = around(mid, made.ffn, made.ffn_norm)
    torch.testing.assert_close(made(x, mask=causal_mask(T)), expected)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_decoder_block_is_its_formula_step_by_step(block, placement):
    made = block(DecoderBlock, norm_placement=placement)
    x, memory = torch.randn(B, T, D_MODEL).double(), torch.randn(B, S, D_MODEL).double()
    cross_mask = padding_mask(SRC_VALID)
    out, seen = seen_by(lambda: made(x, memory, mask=causal_mask(T), cross_mask=cross_mask))
    assert torch.equal(seen["resid_pre"], x)
    parts = {
        "attn": (lambda h: made.attn(h, mask=causal_mask(T)), "resid_mid"),
        "cross_attn": (lambda h: made.cross_attn(h, memory, mask=cross_mask), "resid_mid_cross"),
        "ffn": (made.ffn, "resid_post"),
    }
    for part, (sublayer, after) in parts.items():
        norm = getattr(made, f"{part}_norm")
        whole, added = PLACEMENTS[placement](x, sublayer, norm), seen[f"{part}_out"]
        torch.testing.assert_close(seen[after], whole)
        stream = norm(x + added) if placement == "post" else x + added
        torch.testing.assert_close(seen[after], stream)
        x = seen[after]
    assert torch.equal(out, x)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_dropout_acts_on_the_branch_in_training_only(block, placement):
    made = block(Block, norm_placement=placement, dropout=0.5)
    x = torch.randn(B, T, D_MODEL).double()
    assert torch.equal(made(x), made(x))
    made.train()
    _, seen = seen_by(lambda: made(x))
    dropped = (seen["ffn_out"] == 0).double().mean().item()
    assert 0.35 < dropped < 0.65
    assert (seen["resid_pre"] == x).all()


@pytest.mark.parametrize(("own", "expected"), [(None, 0.5), (0.0, 0.0), (0.25, 0.25)])
def test_attention_can_have_a_dropout_of_its_own(block, own, expected):
    made = block(DecoderBlock, dropout=0.5, attention_dropout=own)
    assert made.attn.dropout == made.cross_attn.dropout == expected
    assert made.dropout.p == made.ffn.dropout.p == 0.5


@pytest.mark.parametrize("kind", [Block, DecoderBlock])
def test_a_memory_that_is_missing_or_that_nothing_reads_is_refused(block, kind):
    x = torch.randn(B, T, D_MODEL).double()
    memory = None if kind is DecoderBlock else x
    with pytest.raises(ValueError, match="a decoder block needs an encoder's output"):
        block(kind)(x, memory)


# Norms against torch; norm weights are never uniform.


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


@pytest.mark.parametrize("kind", NORMS)
def test_half_precision_does_not_overflow(kind):
    # 300 squared is beyond float16, whose largest number is 65504.
    x = torch.tensor([[300.0, -300.0, 300.0, -300.0]], dtype=torch.float16)
    out = NORMS[kind](4).half()(x)
    assert out.dtype == torch.float16
    assert out.tolist() == [[1.0, -1.0, 1.0, -1.0]]


# Feed-forward nets against torch's functions, written out once more in one line each.


WIDTH, D_FF = 6, 10
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
    ffn = FeedForward(WIDTH, D_FF, kind, **options)
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
    x = torch.randn(2, 3, WIDTH).double()
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
    x = torch.randn(2, 3, WIDTH).double()
    assert torch.equal(ffn(x), ffn(x))
    ffn.train()
    assert not torch.equal(ffn(x), ffn(x))


def test_an_unknown_activation_is_refused():
    with pytest.raises(ValueError, match="activation is 'tanh'"):
        FeedForward(WIDTH, D_FF, "tanh")
