"""Three engines on one layer: equal outputs, different habits."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from explorer.analysis.cases.backend import backend, fused, module_like
from explorer.analysis.score.initial import INITS, fresh_model
from explorer.analysis.score.steps import module_of
from explorer.exhibits.score import backward
from explorer.exhibits.score.initial import fresh_scores, weight_std
from explorer.runs.edits import HeadOff, MaskSwitch
from explorer.runs.passes import walked
from explorer.runs.trace import trace
from models.config import ModelConfig

TEXT = "The cat sat on the mat."
ALWAYS = ("drops", "no_weights", "averages")


@pytest.mark.parametrize(
    ("changes", "differs", "why"),
    [
        ({}, [], ()),
        ({"n_kv_heads": 2}, [], ()),
        ({"bias": False, "norm_placement": "pre", "final_norm": True}, [], ()),
        ({"positions": "alibi"}, [], ()),
        ({"family": "decoder-only", "positions": "t5"}, [], ()),
        ({"score_divisor": 1.0}, [], ()),
        # What torch's functions cannot do: rotations, and Gemma's and Qwen 3's caps and norms.
        ({"positions": "rotary"}, [2], ("lacks_turned",)),
        ({"score_cap": 0.01, "score_divisor": 1.0}, [1, 2], ("lacks_capped",)),
        ({"qk_norm": True}, [2], ("lacks_normed",)),
    ],
)
def test_all_three_compute_the_layer_or_what_one_lacks_is_named(
    tiny, changes, differs, why
) -> None:
    loaded = tiny("engines", **changes)
    traced = trace(loaded, TEXT, pads=2)
    for site in traced.sites:
        found = backend(loaded, traced, site, 1)
        lacks = bool(why) and not (site.kind == "cross" and why == ("lacks_turned",))
        for at, difference in enumerate(row.values[0] for row in found.rows):
            assert difference > 1e-3 if lacks and at in differs else difference < 1e-5
        assert found.why == (*why * lacks, *ALWAYS)
        assert [row.values[1] for row in found.rows] == [0, 0, 0]
        explicit, by_torch, module = (row.values[2] for row in found.rows)
        assert explicit == module == 0  # in eval mode
        assert by_torch > 0.01
        own, mean = traced.pattern(site.name)[1], traced.pattern(site.name).mean(0)
        assert found.numbers["apart"] == pytest.approx(100 * np.abs(mean - own).max(), abs=1e-4)


def test_heads_of_another_width_do_not_fit_the_module_and_every_weight_is_taken_over(tiny) -> None:
    wide = tiny("wide", head_dim=10)
    found = backend(wide, trace(wide, TEXT), wide.sites[0], 0)
    assert [row.outcomes[0][0] for row in found.rows] == ["agrees", "agrees", "unfit"]
    assert found.why == ("unfit", "drops", "no_weights")
    with pytest.raises(ValueError, match="4 heads of 10 are no 24"):
        module_like(module_of(wide, wide.sites[0]))
    loaded = tiny("few", n_kv_heads=2)
    layer = module_of(loaded, loaded.sites[0])
    module = module_like(layer)
    d_model, d_head = 24, 6
    keys = module.in_proj_weight[d_model : 2 * d_model].reshape(4, d_head, d_model)
    assert torch.equal(keys[0], keys[1])
    assert torch.equal(keys[2], layer.w_k.weight[d_head:])
    assert module.in_proj_bias[2 * d_model] == layer.w_v.bias[0]


def test_a_row_that_may_attend_to_nothing_is_nan_in_the_module_alone(translator) -> None:
    traced = trace(translator, TEXT, pads=2, edits=(MaskSwitch("pad_queries", True),))
    found = backend(translator, traced, traced.sites[0], 0)
    assert [row.values[1] for row in found.rows] == [0, 0, 2]
    assert found.rows[2].values[0] < 1e-5
    # The yardstick of the comparison is the model's own attention sublayer.
    traced = trace(translator, TEXT)
    site = traced.sites[0]
    own = traced.activations[site.block_hook("attn_out")]
    q, k, v = (torch.tensor(traced.activations[site.hook(what)])[None] for what in "qkv")
    layer = module_of(translator, site)
    z = fused(q, k, v, torch.tensor(traced.mask(site.name))[None], None, layer.divisor)
    np.testing.assert_allclose(layer.w_o(z.transpose(1, 2).flatten(2))[0], own, atol=1e-5)


# The backward pass of a head by hand, whole and tile by tile, against autograd.
DESIGNS = [
    {},
    {"n_kv_heads": 2},
    {"positions": "alibi"},
    {"positions": "rotary", "bias": False},
    {"positions": "alibi", "score_cap": 0.2},
    {"score_divisor": 1.0, "score_cap": 0.5},
]

WIDE = ModelConfig(
    family="decoder-only", vocab_size=50, d_model=512, n_layers=1, n_heads=8, d_ff=64, n_ctx=32
)


@pytest.mark.parametrize("n_key", [3, 4, 9])  # less than a tile, one, more than two
def test_tile_by_tile_the_same_comes_out(n_key) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v, grad_z = (
        torch.randn(n, 3, generator=generator, dtype=torch.float64)
        for n in (n_key, n_key, n_key, n_key)
    )
    bias = torch.randn(n_key, n_key, generator=generator, dtype=torch.float64)
    mask = torch.ones(n_key, n_key, dtype=torch.bool).tril()
    mask[2] = False  # a row that may attend to nothing
    mask[-1, :-1] = False  # and one whose first keys are all blocked
    scores = (
        50 * (q @ k.T) / math.sqrt(3) + bias
    )  # exp of the largest would be too much for float32
    head = backward.HeadInputs(50 * q, k, v, mask, bias, math.sqrt(3))
    pattern = scores.masked_fill(~mask, -1e300).softmax(-1).masked_fill(~mask, 0.0)
    z, logsumexp = backward.fused_forward(head)
    torch.testing.assert_close(z, pattern @ v, rtol=0, atol=1e-13)
    for row in range(n_key):
        if mask[row].any():
            assert logsumexp[row] == pytest.approx(float(scores[row, mask[row]].logsumexp(-1)))
    assert logsumexp[2] == 0
    stored = backward.attention_backward(head, pattern, grad_z)
    again = backward.fused_backward(head, z, logsumexp, grad_z)
    assert set(again) == {"v", "q", "k"}
    for name, gradient in again.items():
        torch.testing.assert_close(gradient, stored[name], rtol=1e-10, atol=1e-11)
    assert not stored["scores"][2].any()
    assert not again["q"][2].any()


@pytest.mark.parametrize("changes", DESIGNS)
def test_heads_of_models_agree_with_autograd(tiny, changes) -> None:
    loaded = tiny("backward", **changes)
    edits = (MaskSwitch("pad_queries", True),)
    traced = trace(loaded, "The cat sat.", "猫坐。", edits, pads=2)
    for site in (traced.sites[0], *traced.sites_of("cross")[-1:], traced.sites_of("decoder")[0]):
        found = backward.head_backward(loaded, traced, site, 2, (1, 7))
        size = max(np.abs(each).max() for each in found.gradients.values())
        for name in backward.GRADIENTS:
            assert found.errors[name] <= 1e-13 * size
        assert set(found.recomputed) == {"v", "q", "k"}
        assert max(found.recomputed.values()) <= 1e-12 * size
        assert found.row_sums <= 1e-13 * size
        blocked = ~traced.mask(site.name)[2]
        assert not found.gradients["scores"][blocked].any()


def test_the_upstream_gradient_is_that_of_the_logit_or_the_output(translator, traced) -> None:
    """In the last layer, no later attention mixes rows: only z at the position itself counts."""
    last = traced.sites_of("cross")[-1]
    found = backward.head_backward(translator, traced, last, 1, (2, 7))
    rows = np.abs(found.upstream).max(-1)
    assert rows[2] > 0
    assert not np.delete(rows, 2).any()
    earlier = backward.head_backward(translator, traced, traced.sites[0], 1, (2, 7))
    assert (np.abs(earlier.upstream).max(-1) > 0).all()  # the encoder reaches it from everywhere
    site = traced.sites[0]
    found = backward.head_backward(translator, traced, site, 1, None)
    np.testing.assert_allclose(found.upstream, traced.activations[site.hook("z")][1], atol=1e-6)
    # The edit sets z to 0 after the fact; what a changed z would do is asked behind it.
    site = translator.sites[0]
    traced = trace(translator, TEXT, edits=(HeadOff(site.name, 1),))
    found = backward.head_backward(translator, traced, site, 1, (1, 7))
    assert np.abs(found.upstream).max() > 0
    assert max(found.errors.values()) < 1e-12


def test_the_spread_of_a_matrix_and_of_embeddings_as_each_rule_says() -> None:
    assert weight_std("xavier", 512, 512) == pytest.approx(0.0442, abs=5e-5)
    assert weight_std("xavier", 512, 1536) == pytest.approx(0.03125)
    assert weight_std("ours", 512, 64) == pytest.approx(0.0589, abs=5e-5)
    assert weight_std("torch", 512, 7) == pytest.approx(1 / math.sqrt(3 * 512))
    assert weight_std("gpt2", 512, 7) == 0.02
    spread = {init: float(fresh_model(WIDE, init, 0).embed.weight.std()) for init in INITS}
    expected = {"torch": 1.0, "unit": 1.0, "gpt2": 0.02, "ours": 512**-0.5}
    expected["xavier"] = math.sqrt(2 / (512 + 50))
    assert spread == pytest.approx(expected, rel=0.02)
    for init in INITS:
        bias = fresh_model(WIDE, init, 0).get_submodule("blocks.0.attn").w_q.bias
        assert float(bias.std()) == pytest.approx(
            (3 * 512) ** -0.5 if init in ("xavier", "torch") else 0.0, rel=0.1
        )
    learned = fresh_model(dataclasses.replace(WIDE, positions="learned"), "gpt2", 0)
    assert float(learned.positions.weight.std()) == pytest.approx(0.02, rel=0.02)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    fresh_model(WIDE, "xavier", 1, "fused")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("positions", "init"),
    [*(("sinusoidal", init) for init in INITS), ("rotary", "torch"), ("rotary", "unit")],
)
def test_scores_scatter_as_the_theory_says(tiny, positions, init) -> None:
    loaded = tiny("writer", family="decoder-only", positions=positions, d_model=48)
    traced = trace(loaded, "The cat sat on the mat.")
    kept = {name: tensor.clone() for name, tensor in loaded.model.named_parameters()}
    found = walked(fresh_scores(traced, traced.sites[0], init, seeds=range(12)))
    for each in found:
        assert each.spread == pytest.approx(each.theory, rel=0.15)
        assert each.weight_std == pytest.approx(each.weight_formula, rel=0.05)
        assert 0 < each.entropy <= each.most
    one, *others = found
    for each, rows in zip(others, (144, 12), strict=True):  # of all three matrices, of one head
        ratio = (weight_std(init, 48, rows) / weight_std(init, 48, 48)) ** 2
        assert each.spread / one.spread == pytest.approx(ratio, rel=0.15)
    assert all(torch.equal(kept[n], tensor) for n, tensor in loaded.model.named_parameters())


def test_of_cross_attention_and_of_shared_keys(tiny) -> None:
    loaded = tiny(n_kv_heads=2)
    traced = trace(loaded, "The cat sat.", "猫坐。")
    told: list[tuple[int, int]] = []
    steps = fresh_scores(traced, traced.sites[-1], "xavier", (0, 1))
    (one, fused, _) = walked(steps, lambda *at: told.append(at))
    assert traced.sites[-1].kind == "cross"
    assert one.shape == (24, 24)
    assert fused.shape == (48, 24)  # 24 rows of W_Q, 12 of W_K, 12 of W_V
    assert len(one.scores) == 2 * 4 * len(traced.tgt_tokens) * len(traced.src_tokens)
    assert told == [(0, 2), (1, 2)]
