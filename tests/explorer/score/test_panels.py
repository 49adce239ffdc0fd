"""What surrounds a cell: scalings, the parts of a score, layouts of weights, groups, dropout."""

import math

import numpy as np
import pytest
import torch

from explorer.analysis.heads.reading import entropy
from explorer.analysis.score import steps
from explorer.analysis.score.scaling import SCALINGS, scaled, softmax_gradient
from explorer.exhibits.score import dropout, groups, layouts, raw, split
from explorer.runs.trace import trace

TEXT = "The cat sat on the mat."


def test_the_usual_scaling_is_the_model_itself(translator) -> None:
    traced = trace(translator, TEXT, pads=2)
    for site in traced.sites:
        usual = scaled(traced, site, 1, "head")
        np.testing.assert_allclose(usual.pattern, traced.pattern(site.name)[1], atol=1e-6)
        others = {name: scaled(traced, site, 1, name) for name in SCALINGS}
        assert others["none"].entropy < usual.entropy < others["model"].entropy
        assert others["none"].top > usual.top > others["model"].top
        assert others["none"].divisor == 1
        assert others["model"].divisor == pytest.approx(math.sqrt(24))
        ratio = others["none"].scores / usual.scores
        np.testing.assert_allclose(ratio, math.sqrt(6), rtol=1e-4)


def test_scores_are_capped_after_the_scaling(tiny) -> None:
    """As the model does; no score is beyond the cap, whatever it is divided by."""
    loaded = tiny("capped", score_cap=0.2)
    traced = trace(loaded, TEXT)
    site = traced.sites[0]
    usual = scaled(traced, site, 1, "head")
    np.testing.assert_allclose(usual.pattern, traced.pattern(site.name)[1], atol=1e-6)
    own = traced.activations[site.hook("scores")][1]
    np.testing.assert_allclose(usual.scores, own[traced.mask(site.name)[1]], atol=1e-6)
    unscaled = scaled(traced, site, 1, "none").scores
    assert np.abs(usual.scores).mean() < np.abs(unscaled).mean() < 0.2
    used = dropout.dropped(traced, site, 1, 2, 0.0).after
    np.testing.assert_allclose(used, traced.pattern(site.name)[1, 2], atol=1e-6)


def test_means_are_over_rows_with_a_choice(translator) -> None:
    traced = trace(translator, TEXT, pads=2)
    site = next(site for site in traced.sites if site.role == "decoder")
    n_real = int(traced.tgt_valid.sum())
    rows = traced.pattern(site.name)[0, 1:n_real]  # row 0 sees itself alone
    found = scaled(traced, site, 0, "head")
    assert found.entropy == pytest.approx(entropy(rows).mean())
    assert len(found.scores) == n_real * (n_real + 1) // 2


def test_the_softmax_gradient_is_that_of_autograd() -> None:
    scores = torch.tensor([[0.3, -1.2, 2.0], [5.0, 5.0, 5.0], [40.0, 0.0, 0.0]])
    for row in scores:
        jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), row)
        expected = float(jacobian.norm())
        assert softmax_gradient(row.softmax(-1).numpy()) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm_placement": "pre", "final_norm": True},
        {"norm_placement": "pre", "norm": "rmsnorm", "positions": "learned", "bias": False},
        {"family": "decoder-only", "n_kv_heads": 2},
    ],
)
def test_the_parts_of_a_first_layer_score_add_up_to_it(tiny, changes) -> None:
    loaded = tiny("split", **changes)
    traced = trace(loaded, TEXT)
    sites = [site for site in traced.sites if split.can_split(traced, site)]
    assert len(sites) == (1 if changes.get("family") else 2)
    for site in sites:
        found = split.split(loaded, traced, site, 3)
        own = traced.activations[site.hook("scores")][3]
        np.testing.assert_allclose(sum(found.parts.values()), own, atol=1e-4)
        assert found.difference < 1e-4
        # Only the distance to other positions changes with the key's position: the word-word part
        # is the same wherever one word stands twice ("The cat ... the cat" has none; the same row).
        assert np.abs(found.position_position).max() > 0


def test_words_alone_make_equal_word_parts(translator) -> None:
    traced = trace(translator, "cat cat")
    site = traced.sites[0]
    first, second = (
        index for index, token in enumerate(traced.src_tokens) if traced.src_tokens.count(token) > 1
    )
    found = split.split(translator, traced, site, 0)
    np.testing.assert_allclose(found.word_word[:, first], found.word_word[:, second], atol=1e-9)
    np.testing.assert_allclose(found.word_position[first], found.word_position[second], atol=1e-9)
    assert np.abs(found.position_position[:, first] - found.position_position[:, second]).max() > 0


def test_scores_that_are_no_sum_are_not_split(translator, tiny) -> None:
    traced = trace(translator, TEXT)
    for site in traced.sites:
        if site.kind == "cross" or site.layer:
            assert not split.can_split(traced, site)
            with pytest.raises(ValueError, match="not a plain sum"):
                split.split(translator, traced, site, 0)
    rotary = tiny("rotary", positions="rotary")
    turned = trace(rotary, TEXT)
    assert not any(split.can_split(turned, site) for site in turned.sites)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm_placement": "pre", "final_norm": True},
        {"norm_placement": "sublayer", "final_norm": True, "bias": False},
        {"family": "decoder-only", "norm_placement": "pre", "n_kv_heads": 2},
    ],
)
def test_three_layouts_of_the_weights_give_the_numbers_of_the_run(tiny, changes) -> None:
    loaded = tiny("layouts", **changes)
    traced = trace(loaded, TEXT)
    for site in traced.sites:
        module = steps.module_of(loaded, site)
        x, memory = steps.site_inputs(loaded, traced, site)
        q = module.w_q(x).unflatten(-1, (site.n_heads, -1)).transpose(0, 1)
        v = module.w_v(memory).unflatten(-1, (module.n_kv_heads, -1)).transpose(0, 1)
        np.testing.assert_allclose(q.numpy(), traced.activations[site.hook("q")], atol=1e-5)
        np.testing.assert_allclose(v.numpy(), traced.activations[site.hook("v")], atol=1e-5)
        one, small, fused = layouts.layouts(loaded, traced, site)
        assert one.parameters == small.parameters == fused.parameters
        assert small.matrices == site.n_heads + 2 * module.n_kv_heads
        assert fused.matrices == (1 if site.kind == "self" else 2)
        assert max(small.difference, fused.difference) < 1e-5
        bias = 1 if loaded.config.bias else 0
        rows = module.d_head * (site.n_heads + 2 * module.n_kv_heads)
        assert one.parameters == rows * (24 + bias)


def test_unprojected_scores_are_symmetric_and_projected_ones_are_not(translator) -> None:
    traced = trace(translator, TEXT)
    for site in traced.sites:
        found = raw.raw(translator, traced, site, 0)
        if site.kind == "cross":
            assert found.asymmetry is None
        else:
            assert found.asymmetry[0] < 1e-5 < 0.1 < found.asymmetry[1]
    site = traced.sites[0]
    x = traced.activations["encoder.blocks.0.hook_resid_pre"].astype(np.float64)
    unprojected = raw.raw(translator, traced, site, 0).unprojected
    np.testing.assert_allclose(unprojected, x @ x.T / math.sqrt(24), atol=1e-4)


def test_groups_share_in_order_and_the_cache_shrinks(translator) -> None:
    traced = trace(translator, TEXT)
    site = next(site for site in traced.sites if site.role == "decoder")
    assert groups.possible_groups(site) == (1, 2, 4)
    own, two, one = (groups.grouped(traced, site, n) for n in (4, 2, 1))
    assert own.group_of == (0, 1, 2, 3)
    assert two.group_of == (0, 0, 1, 1)
    assert own.moved is None
    assert own.cache_bytes == 2 * 2 * 4 * 6 * 4  # k and v, 2 layers, 4 heads of 6, 4 bytes
    assert two.cache_bytes * 2 == own.cache_bytes == one.cache_bytes * 4
    assert two.moved is not None
    assert 0 < two.moved <= 1
    assert two.tiled != two.moved
    assert one.tiled == one.moved  # one group has no order
    with pytest.raises(ValueError, match="evenly"):
        groups.grouped(traced, site, 3)


def test_a_model_that_shares_already_moves_only_below_its_own_number(tiny) -> None:
    loaded = tiny("gqa", family="decoder-only", n_kv_heads=2)
    traced = trace(loaded, TEXT)
    site = traced.sites[0]
    assert groups.grouped(traced, site, 2).moved is None
    assert groups.grouped(traced, site, 4).moved is None
    assert groups.grouped(traced, site, 1).moved is not None


def test_dropout_leaves_rows_that_no_longer_sum_to_one(translator) -> None:
    traced = trace(translator, TEXT)
    site = next(site for site in traced.sites if site.role == "cross")
    off = dropout.dropped(traced, site, 1, 2, 0.0)
    np.testing.assert_allclose(off.after, off.before, atol=1e-6)
    np.testing.assert_allclose(off.sums, 1, atol=1e-5)
    half = dropout.dropped(traced, site, 1, 2, 0.5)
    kept = half.after > 0
    np.testing.assert_allclose(half.after[kept], 2 * half.before[kept], rtol=1e-5)
    assert np.abs(half.sums - 1).max() > 0.05
    again = dropout.dropped(traced, site, 1, 2, 0.5)
    np.testing.assert_array_equal(half.after, again.after)
    other = dropout.dropped(traced, site, 1, 2, 0.5, seed=1)
    assert (half.after != other.after).any()
    draws = [dropout.dropped(traced, site, 1, 2, 0.5, seed).sums for seed in range(200)]
    np.testing.assert_allclose(np.mean(draws, axis=0), 1, atol=0.25)
    with pytest.raises(ValueError, match="dropout must be"):
        dropout.dropped(traced, site, 1, 2, 1.0)
