"""The stream block by block, and what happens inside a feed-forward net."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny import sized
from torch import nn
from torch.nn import functional as F

from explorer.analysis.blocks import norms
from explorer.analysis.blocks.residual import (
    D_FF,
    D_MODEL,
    N_HEADS,
    PLACEMENTS,
    fresh_flow,
    trained_flow,
)
from explorer.exhibits.blocks.activations import curves
from explorer.exhibits.blocks.hidden import hidden
from explorer.exhibits.blocks.norms import eps_curves, moved_by_others
from explorer.runs.run import run
from explorer.runs.trace import trace
from models.masks import causal_mask
from models.rows import Rows
from models.transformer import build_model

TOKENS = (5, 9, 300, 9, 41, 7, 8, 2)

SENTENCES = ("The cat ran.", "A dog ran after the cat", "I love you")


def test_the_stream_of_each_placement():
    post, pre, branch = (fresh_flow(TOKENS, place, 12, True) for place in PLACEMENTS)
    assert post.stream.shape == post.gradient.shape == (3, 13)
    assert post.added.shape == (3, 12)
    # Behind its norm, a post-norm stream has unit size; the two others grow.
    np.testing.assert_allclose(post.stream[:, 1:], 1.0, atol=1e-3)
    for grown in (pre, branch):
        assert (np.diff(grown.stream.mean(0)) > 0).all()
    # What a norm on the branch adds has unit size, and two such sums a block add up: sqrt(1 + 2n).
    np.testing.assert_allclose(branch.added, 1.0, atol=1e-3)
    np.testing.assert_allclose(branch.stream[:, -1], (1 + 2 * 12) ** 0.5, rtol=0.35)


def test_the_same_seed_is_the_same_model_and_what_cannot_be_built_is_refused():
    one, two = (fresh_flow(TOKENS, "pre", 2, False, seeds=(4,)) for _ in range(2))
    np.testing.assert_array_equal(one.gradient, two.gradient)
    assert not np.array_equal(one.gradient, fresh_flow(TOKENS, "pre", 2, False, (5,)).gradient)
    assert not np.array_equal(one.gradient, fresh_flow(TOKENS, "pre", 2, True, (4,)).gradient)
    with pytest.raises(ValueError, match="placement is 'post'"):
        fresh_flow(TOKENS, "post", 2, True, residual=False)
    with pytest.raises(ValueError, match="one_token"):
        fresh_flow((3,), "pre", 2, True)
    with pytest.raises(ValueError, match="n_layers is 49"):
        fresh_flow(TOKENS, "pre", 49, True)


def test_without_the_sum_a_block_hands_on_its_branches_alone():
    flow = fresh_flow(TOKENS, "pre", 1, True, seeds=(4,), residual=False)
    _, ids = np.unique(TOKENS, return_inverse=True)
    sizes = {"d_ff": D_FF, "n_layers": 1, "n_ctx": len(TOKENS), "dropout": 0.0}
    placed = {"family": "decoder-only", "norm_placement": "pre", "final_norm": True}
    with torch.random.fork_rng():
        torch.manual_seed(4)
        model = build_model(
            replace(sized(D_MODEL, N_HEADS, **sizes, **placed), vocab_size=int(ids.max()) + 1)
        )
    hook, block = "blocks.0.hook_resid_pre", model.blocks[0]
    x = run(model, Rows(torch.from_numpy(ids)[None]), {hook})[hook]
    with torch.no_grad():
        attended = block.attn(block.attn_norm(x), mask=causal_mask(len(TOKENS)))
        out = block.ffn(block.ffn_norm(attended))
    for found, expected in ((flow.added[0, 0], attended), (flow.stream[0, 1], out)):
        assert found == pytest.approx(float(expected.pow(2).mean().sqrt()), rel=1e-5)


def test_the_spread_is_what_tokens_do_not_have_in_common(writer):
    flow = trained_flow(writer, trace(writer, "The cat sat."))
    found = trace(writer, "The cat sat.").activations["blocks.1.hook_resid_post"].astype(float)
    common = np.linalg.norm(found.mean(0)) ** 2 * len(found)  # Pythagoras: the rest is the spread
    assert flow.spread[2] ** 2 == pytest.approx(1 - common / (found**2).sum(), abs=1e-4)


@pytest.mark.parametrize("family", ["encoder-decoder", "decoder-only"])
def test_a_trained_stream_is_the_trace_s_and_its_gradient_a_slope(family, tiny):
    loaded = tiny(family=family, n_encoder_layers=None)
    traced = trace(loaded, "The cat sat on the mat", "爱猫你在跑我")
    flow = trained_flow(loaded, traced)
    prefix = "" if family == "decoder-only" else "encoder."
    for layer in range(2):
        stream = traced.activations[f"{prefix}blocks.{layer}.hook_resid_post"]
        assert flow.stream[layer + 1] == pytest.approx(np.sqrt((stream**2).mean()), rel=1e-5)
        added = traced.activations[f"{prefix}blocks.{layer}.hook_attn_out"]
        assert flow.added[layer] == pytest.approx(np.sqrt((added**2).mean()), rel=1e-5)
    assert (flow.gradient > 0).all()
    assert all(parameter.grad is None for parameter in loaded.model.parameters())


def test_activations_by_hand():
    x = np.array([-0.7517916, 0.0, 2.7])
    found = curves(x)
    assert found["gelu"][0] == pytest.approx(-0.16997, abs=1e-5)  # its lowest value
    assert found["relu"].tolist() == [0.0, 0.0, 2.7]
    np.testing.assert_allclose(found["silu"], x / (1 + np.exp(-x)))
    slopes = curves(x, "slope")
    assert slopes["gelu"][0] == pytest.approx(0.0, abs=1e-6)
    assert (slopes["gelu"][1], slopes["silu"][1]) == pytest.approx((0.5, 0.5))
    differences = curves(np.linspace(-5, 5, 4001), "difference")
    assert set(differences) == {"relu", "gelu_tanh", "gelu_quick", "silu"}
    assert np.abs(differences["gelu_tanh"]).max() == pytest.approx(4.73e-4, rel=0.01)


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_hidden_units_of_relu(stack, translator):
    traced = trace(translator, "The cat ran", "爱猫你")
    found = hidden(translator, traced, stack, 1)
    np.testing.assert_array_equal(found.post, np.maximum(found.pre, 0))
    assert found.gate is None
    assert found.silent == pytest.approx(float((found.pre <= 1e-6).mean()))
    rows = traced.src_tokens if stack == "encoder" else traced.tgt_tokens
    assert found.pre.shape == (len(rows), 20)
    # What goes down, with w_down on it, is what the block adds.
    down = translator.model.get_submodule(f"{stack}.blocks.1.ffn.w_down")
    with torch.inference_mode():
        out = down(torch.from_numpy(found.post)).numpy()
    np.testing.assert_allclose(out, traced.activations[f"{stack}.blocks.1.hook_ffn_out"], atol=1e-5)
    units = found.strongest(3)
    assert sorted(units) == list(units)
    least = np.abs(found.post[:, units]).max(0).min()
    assert (np.abs(np.delete(found.post, units, 1)).max(0) <= least).all()


def test_a_gate_times_what_it_lets_through_and_only_biases_that_add_something(tiny):
    loaded = tiny("writer", family="decoder-only", ffn="swiglu")
    traced = trace(loaded, "The cat ran")
    found = hidden(loaded, traced, "decoder", 0)
    np.testing.assert_allclose(found.post, found.gate * found.pre, atol=1e-6)
    with pytest.raises(KeyError):
        hidden(loaded, traced, "decoder", 9)
    net = loaded.stacks[0].path("blocks", 0, "ffn")
    with torch.no_grad():
        for name in ("w_gate", "w_up", "w_down"):
            loaded.model.get_parameter(f"{net}.{name}.bias").zero_()
        loaded.model.get_parameter(f"{net}.w_down.bias")[3] = 0.1
    assert hidden(loaded, traced, "decoder", 0).biased == {"w_down"}


def test_a_batch_enters_the_first_block_as_each_sentence_does(translator, writer):
    batch = norms.batch_of(translator, SENTENCES)
    for at, sentence in enumerate(SENTENCES):
        alone = trace(translator, sentence).activations["encoder.blocks.0.hook_resid_pre"]
        np.testing.assert_allclose(batch.x[at][: len(alone)], alone, atol=1e-6)
        assert batch.valid[at].tolist() == [place < len(alone) for place in range(batch.x.shape[1])]
    assert batch.tokens[0][-1] == "<pad>"
    with pytest.raises(ValueError, match="at least one"):
        norms.batch_of(translator, ())
    assert norms.batch_of(writer, ["The cat"]).tokens[0][0] == "<s>"


def test_norms_are_torch_s_and_only_batch_norm_hears_the_others(translator):
    x = norms.batch_of(translator, SENTENCES).x
    d = x.shape[-1]
    wide = torch.from_numpy(x)
    batch_norm = nn.BatchNorm1d(d, affine=False).double().train()
    expected = {
        "layernorm": nn.functional.layer_norm(wide, (d,)),
        "rmsnorm": nn.functional.rms_norm(wide, (d,), eps=1e-5),
        "batchnorm": batch_norm(wide.transpose(1, 2)).transpose(1, 2),
    }
    for norm in norms.NORMS:
        np.testing.assert_allclose(norms.normalised(x, norm), expected[norm].numpy(), atol=1e-9)
    assert norms.statistics(x, "layernorm").mean.shape == x.shape[:2]
    assert norms.statistics(x, "batchnorm").mean.shape == (d,)
    np.testing.assert_allclose(norms.statistics(x, "batchnorm").scale, x.reshape(-1, d).std(0))
    np.testing.assert_allclose(
        norms.statistics(x, "rmsnorm").scale ** 2,
        norms.statistics(x, "layernorm").scale ** 2 + norms.statistics(x, "layernorm").mean ** 2,
    )
    shares = moved_by_others(translator, SENTENCES)
    assert norms.NORMS == ("layernorm", "rmsnorm", "batchnorm")
    assert shares[:2].max() < 1e-12
    assert shares[2].min() > 0.01
    assert moved_by_others(translator, SENTENCES[:1]).max() == 0.0


def test_eps_against_the_size_of_the_input_by_hand():
    x = np.array([1.0, -1.0, 1.0, -1.0])  # mean 0, deviation and rms 1
    scales, epsilons = np.array([1e-4, 1e-2, 1.0]), (1e-12, 1e-8, 1e-5)
    expected = [[s / (s * s + eps) ** 0.5 for s in scales] for eps in epsilons]
    np.testing.assert_allclose(eps_curves(x, scales, epsilons), expected, rtol=1e-6)
    np.testing.assert_allclose(eps_curves(x, scales, epsilons, "rmsnorm"), expected, rtol=1e-6)
    outside = [[s / (s + eps) for s in scales] for eps in epsilons]
    np.testing.assert_allclose(eps_curves(x, scales, epsilons, "rms_outside"), outside)


def test_gamma_belongs_before_the_jacobian():
    draw = np.random.default_rng(2)
    x, upstream = draw.normal(size=6), draw.normal(size=6)
    gamma = np.array([0.2, 1.0, 3.0, 0.5, 1.5, 2.0])
    layer, rms = (norms.backward(x, gamma, upstream, norm) for norm in ("layernorm", "rmsnorm"))
    for found, normed in (
        (layer, (x - x.mean()) / np.sqrt(x.var() + 1e-5)),
        (rms, x / np.sqrt((x**2).mean() + 1e-5)),
    ):
        assert found.error < 1e-12
        assert found.wrong_error > 0.1
        np.testing.assert_allclose(found.d_gamma, upstream * normed)
    np.testing.assert_allclose(layer.d_beta, upstream)
    assert rms.d_beta is None
    assert layer.by_hand.sum() == pytest.approx(0, abs=1e-12)  # a shift of x changes nothing
    assert rms.by_hand @ x == pytest.approx(0, abs=1e-4)  # nor does a longer x
    assert abs(rms.by_hand.sum()) > 0.1  # but a shift does


@pytest.mark.parametrize("shape", [(8,), (5, 8), (3, 5, 8), (2, 3, 5, 8)])
@pytest.mark.parametrize("eps", [1e-5, 0.3])
def test_norms_by_hand_are_torchs_and_their_backwards_autograds(shape, eps):
    x = 3 * torch.randn(shape, dtype=torch.float64) + 1
    weight = torch.linspace(-1.5, 2.5, 8, dtype=torch.float64)
    bias = torch.linspace(2.0, -1.0, 8, dtype=torch.float64)
    grad_out, leaves = torch.randn_like(x), [t.clone().requires_grad_() for t in (x, weight, bias)]
    layer = F.layer_norm(leaves[0], (8,), *leaves[1:], eps)
    rms = F.rms_norm(leaves[0], (8,), leaves[1], eps)
    for by_hand, expected, backward_by_hand, n_inputs in (
        (norms.layer_norm_forward(x, weight, bias, eps), layer, norms.layer_norm_backward, 3),
        (norms.rms_norm_forward(x, weight, eps), rms, norms.rms_norm_backward, 2),
    ):
        torch.testing.assert_close(by_hand, expected.detach(), atol=1e-13, rtol=0)
        gradients = torch.autograd.grad(expected, leaves[:n_inputs], grad_out)
        for ours, own in zip(backward_by_hand(x, weight, eps, grad_out), gradients, strict=True):
            torch.testing.assert_close(ours, own, atol=1e-12, rtol=0)
    single = [tensor.float() for tensor in (x, weight, bias)]
    expected = F.layer_norm(single[0], (8,), *single[1:], eps)
    torch.testing.assert_close(norms.layer_norm_forward(*single, eps), expected, atol=2e-6, rtol=0)
