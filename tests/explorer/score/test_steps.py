"""One cell: every step recomputed from the one before it, and held against the model's own run."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from explorer.analysis.heads.measures import entropy
from explorer.analysis.score import steps
from explorer.exhibits.score import dropout, raw, split
from explorer.library import LoadedModel
from explorer.runs.edits import HeadOff, MaskSwitch
from explorer.runs.trace import trace
from tests.explorer.conftest import DESIGNS

TEXT = "The cat sat on the mat."


@pytest.fixture(params=["post", "pre", "sublayer", "post-rms", "llama", "alibi", "capped"])
def loaded(request: pytest.FixtureRequest, tiny) -> LoadedModel:
    return tiny(request.param, **DESIGNS[request.param])


def test_each_step_follows_from_the_one_before(loaded) -> None:
    traced = trace(loaded, TEXT)
    for site in traced.sites:
        cell = steps.cell_of(loaded, traced, site, head=3, query=4, key=2)
        assert cell.dot == pytest.approx(float(np.dot(cell.q, cell.k)), rel=1e-5, abs=1e-6)
        assert cell.dot / cell.divisor == pytest.approx(cell.scaled, rel=1e-4, abs=1e-5)
        capped = cell.cap * math.tanh(cell.scaled / cell.cap) if cell.cap else cell.scaled
        assert (cell.cap is not None) == (loaded.config.score_cap is not None)
        assert capped + (cell.bias or 0) == pytest.approx(cell.score, rel=1e-4, abs=1e-5)
        biased = loaded.config.position_type.acts == "biases" and cell.site.kind == "self"
        assert (cell.bias is not None) == biased
        np.testing.assert_allclose(cell.exponentials / cell.row_sum, cell.weights, atol=1e-6)
        assert cell.weights.sum() == pytest.approx(1, abs=1e-5)
        assert (cell.exponentials[~cell.allowed] == 0).all()


def test_the_slope_is_what_a_hundredth_of_the_cell_does(loaded) -> None:
    traced = trace(loaded, TEXT)
    last = int(traced.tgt_valid.sum()) - 1
    moved = 0.0
    for site in traced.sites:
        cell = steps.cell_of(loaded, traced, site, 1, 2 if site.stack == "encoder" else last, 0)
        whole = steps.effect(loaded, traced, cell, last)
        assert whole.tokens[whole.chosen] == steps.chosen_token(traced, last)
        np.testing.assert_array_equal(whole.before, traced.logits[last, list(whole.tokens)])
        little = steps.effect(loaded, traced, replace(cell, weights=cell.weights / 100), last)
        change = float(little.change[little.chosen])
        assert 100 * change == pytest.approx(whole.slope, abs=1e-3, rel=0.1)
        moved = max(moved, abs(whole.slope))
    assert moved > 0.005  # or nothing was compared


def test_the_only_cell_of_a_row_is_the_whole_head(tiny) -> None:
    """The first row of a causal head sees itself alone, so the cell is the head for that row."""
    loaded = tiny("one", family="decoder-only")
    traced = trace(loaded, TEXT)
    site = traced.sites[0]
    cell = steps.cell_of(loaded, traced, site, 2, 0, 0)
    assert cell.weight == 1
    np.testing.assert_allclose(cell.written, cell.head_written, atol=1e-6)
    first = steps.effect(loaded, traced, cell, 0)
    off = trace(loaded, "The", edits=(HeadOff(site.name, 2),))
    np.testing.assert_allclose(first.after, off.logits[0, list(first.tokens)], atol=1e-4)
    assert np.abs(first.change).max() > 1e-3


def test_a_head_that_is_off_writes_nothing(translator) -> None:
    site = next(site for site in translator.sites if site.role == "cross")
    traced = trace(translator, TEXT, edits=(HeadOff(site.name, 1), MaskSwitch("causal", False)))
    cell = steps.cell_of(translator, traced, site, 1, 2, 0)
    assert cell.weight > 0
    assert not cell.written.any()
    assert not cell.head_written.any()
    np.testing.assert_allclose(steps.effect(translator, traced, cell, 2).change, 0, atol=1e-5)


def test_what_is_not_there_is_refused_and_a_chosen_token_shown(translator, writer, traced) -> None:
    site = traced.sites[0]
    for loaded, at, error, message in (
        (translator, (4, 0, 0), IndexError, "no head 4: its size is 4"),
        (translator, (0, 0, 99), IndexError, "no key 99: its size is"),
        (writer, (0, 0, 0), ValueError, "the trace was made by"),
    ):
        with pytest.raises(error, match=message):
            steps.cell_of(loaded, traced, site, *at)
    cell = steps.cell_of(translator, traced, traced.sites[-1], 0, 1, 0)
    with pytest.raises(IndexError, match="there is no position 99"):
        steps.effect(translator, traced, cell, 99)
    with pytest.raises(IndexError, match="vocabulary"):
        steps.effect(translator, traced, cell, 0, token=10**6)
    unlikely = int(traced.logits[1].argmin())
    found = steps.effect(translator, traced, cell, 1, token=unlikely)
    assert found.tokens[found.chosen] == unlikely
    assert len(found.tokens) == len(found.str_tokens) == 6
    assert steps.lengths([np.array([3.0, 4.0]), np.zeros(2)]) == (5.0, 0.0)


# What surrounds a cell: scalings, the parts of a score, layouts of weights, groups, dropout.
def test_the_usual_scaling_is_the_model_itself_over_rows_with_a_choice(translator) -> None:
    traced = trace(translator, TEXT, pads=2)
    for site in traced.sites:
        usual = steps.scaled(traced, site, 1, "head")
        np.testing.assert_allclose(usual.pattern, traced.pattern(site.name)[1], atol=1e-6)
        others = {name: steps.scaled(traced, site, 1, name) for name in steps.SCALINGS}
        assert others["none"].entropy < usual.entropy < others["model"].entropy
        assert others["none"].top > usual.top > others["model"].top
        assert others["none"].divisor == 1
        assert others["model"].divisor == pytest.approx(math.sqrt(24))
        ratio = others["none"].scores / usual.scores
        np.testing.assert_allclose(ratio, math.sqrt(6), rtol=1e-4)
    site = next(site for site in traced.sites if site.role == "decoder")
    n_real = int(traced.tgt_valid.sum())
    rows = traced.pattern(site.name)[0, 1:n_real]  # row 0 sees itself alone
    found = steps.scaled(traced, site, 0, "head")
    assert found.entropy == pytest.approx(entropy(rows).mean())
    assert len(found.scores) == n_real * (n_real + 1) // 2


def test_scores_are_capped_after_the_scaling_and_softmax_has_autograds_gradient(tiny) -> None:
    """As the model does; no score is beyond the cap, whatever it is divided by."""
    loaded = tiny("capped", score_cap=0.2)
    traced = trace(loaded, TEXT)
    site = traced.sites[0]
    usual = steps.scaled(traced, site, 1, "head")
    np.testing.assert_allclose(usual.pattern, traced.pattern(site.name)[1], atol=1e-6)
    own = traced.activations[site.hook("scores")][1]
    np.testing.assert_allclose(usual.scores, own[traced.mask(site.name)[1]], atol=1e-6)
    unscaled = steps.scaled(traced, site, 1, "none").scores
    assert np.abs(usual.scores).mean() < np.abs(unscaled).mean() < 0.2
    used = dropout.dropped(traced, site, 1, 2, 0.0).after
    np.testing.assert_allclose(used, traced.pattern(site.name)[1, 2], atol=1e-6)
    scores = torch.tensor([[0.3, -1.2, 2.0], [5.0, 5.0, 5.0], [40.0, 0.0, 0.0]])
    for row in scores:
        jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), row)
        expected = float(jacobian.norm())
        assert steps.softmax_gradient(row.softmax(-1).numpy()) == pytest.approx(expected, abs=1e-6)


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
        np.testing.assert_allclose(sum(found.values()), own, atol=1e-4)
        # Only the distance to other positions changes with the key's position: the word-word part
        # is the same wherever one word stands twice ("The cat ... the cat" has none; the same row).
        assert np.abs(found["position_position"]).max() > 0


def test_parts_are_equal_for_equal_words_and_only_plain_sums_are_split(translator, tiny) -> None:
    traced = trace(translator, "cat cat")
    site = traced.sites[0]
    first, second = (
        index for index, token in enumerate(traced.src_tokens) if traced.src_tokens.count(token) > 1
    )
    parts = split.split(translator, traced, site, 0)
    words, placed, places = (
        parts[name] for name in ("word_word", "word_position", "position_position")
    )
    np.testing.assert_allclose(words[:, first], words[:, second], atol=1e-9)
    np.testing.assert_allclose(placed[first], placed[second], atol=1e-9)
    assert np.abs(places[:, first] - places[:, second]).max() > 0
    traced = trace(translator, TEXT)
    for site in traced.sites:
        if site.kind == "cross" or site.layer:
            assert not split.can_split(traced, site)
            assert split.split(translator, traced, site, 0) is None
    rotary = tiny("rotary", positions="rotary")
    turned = trace(rotary, TEXT)
    assert not any(split.can_split(turned, site) for site in turned.sites)


def test_unprojected_scores_are_symmetric_and_projected_ones_are_not(translator, traced) -> None:
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


def test_dropout_leaves_rows_that_no_longer_sum_to_one(traced) -> None:
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
