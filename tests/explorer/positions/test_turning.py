"""Rotations up close: against the model's own scores, and both layouts of pairs."""

import numpy as np
import pytest
import torch
from new_kinds import registered

from explorer.analysis.positions import turning
from explorer.analysis.score.steps import module_of, site_inputs
from explorer.runs.trace import trace
from models.positions import Scaling, frequencies


def test_the_half_split_layout_by_hand_and_permuted():
    # d = 4: features (0, 2) turn by 1, features (1, 3) by 1/100 a position.
    x = torch.tensor([[[[1.0, 2.0, 3.0, 4.0]]]], dtype=torch.float64)
    found = turning.rotate_as(x, torch.tensor([2]), np.array([1, 0.01]), "half")[0, 0, 0]
    c, s, c2, s2 = np.cos(2), np.sin(2), np.cos(0.02), np.sin(0.02)
    expected = [c - 3 * s, 2 * c2 - 4 * s2, s + 3 * c, 2 * s2 + 4 * c2]
    np.testing.assert_allclose(found.numpy(), expected)
    assert turning.pairs_of(6, "half").tolist() == [[0, 3], [1, 4], [2, 5]]
    with pytest.raises(ValueError, match="odd"):
        turning.rotate_as(torch.zeros(1, 1, 1, 3), torch.tensor([0]), np.ones(1), "half")
    draw = np.random.default_rng(3)
    q, k = draw.normal(size=(9, 16)), draw.normal(size=(9, 16))
    wrong, left = turning.layout_difference(q, k, frequencies(16).numpy(), 4.0)
    assert wrong > 0.5
    assert left < 1e-12
    q = np.array([1.0, 0.0, 1.0, 0.0])
    offsets = np.arange(-3, 4)
    expected = (np.cos(offsets) + np.cos(offsets / 100)) / 2
    np.testing.assert_allclose(
        turning.score_by_offset(q, q, offsets, np.array([1, 0.01]), 2.0), expected
    )


@pytest.mark.parametrize(("positions", "kv_heads"), [("rotary", 1), ("rotary", 2), ("spiral", 4)])
def test_pairs_add_up_to_the_model_s_own_score(positions, kv_heads, tiny):
    with registered("spiral"):
        loaded = tiny("writer", family="decoder-only", positions=positions, n_kv_heads=kv_heads)
        traced = trace(loaded, "The cat sat on the mat")
        site = traced.sites[1].name
        scores = traced.activations[f"{site}.hook_scores"]
        for head, query, key in ((0, 4, 1), (3, 2, 2), (1, 1, 5)):
            found = turning.turned(loaded, traced, site, head, query, key)
            assert found.score == pytest.approx(float(scores[head, query, key]), abs=1e-4)
            q, k = (
                turning.bare(loaded, traced, site, head, "q"),
                turning.bare(loaded, traced, site, head, "k"),
            )
            angles = turning.angles_of(loaded, traced, site)
            curve = turning.score_by_offset(
                q[query], k[key], np.arange(-5, 6), angles, loaded.config.divisor
            )
            assert curve[query - key + 5] == pytest.approx(found.score, abs=1e-9)
            assert curve[5] == pytest.approx(q[query] @ k[key] / loaded.config.d_head**0.5)
            lengths = np.linalg.norm(found.q, axis=1)
            np.testing.assert_allclose(np.linalg.norm(found.q_turned, axis=1), lengths)


def test_each_layer_has_its_own_angles(tiny):
    """Those of Gemma 3: the first layer's base is short, the second one's is the model's."""
    bases = {"rope_base": 900.0, "near_rope_base": 20.0, "near_layers": (0,)}
    loaded = tiny("writer", family="decoder-only", positions="rotary", **bases)
    traced = trace(loaded, "The cat sat on the mat")
    for site, base in zip(traced.sites, (20.0, 900.0), strict=True):
        found = turning.turned(loaded, traced, site.name, 1, 4, 1)
        scores = traced.activations[site.hook("scores")]
        assert found.score == pytest.approx(float(scores[1, 4, 1]), abs=1e-4)
        np.testing.assert_allclose(found.angles, frequencies(loaded.config.d_head, base).numpy())


@pytest.mark.parametrize(
    "changes",
    [
        {"rotary_dim": 4},
        {"rope_scaling": Scaling((1.0, 2.0, 8.0)), "rope_base": 50.0},
        {"rope_scaling": Scaling(n_ctx=4, growth=3.0), "rope_base": 50.0},
    ],
)
def test_what_the_model_itself_turned_is_taken_back(changes, tiny):
    """As in Pythia, which turns a part of each head, and in Llama 3, which stretches angles."""
    loaded = tiny("writer", family="decoder-only", positions="rotary", **changes)
    traced = trace(loaded, "The cat sat on the mat")
    site = traced.sites[1]
    module, (x, _) = module_of(loaded, site), site_inputs(loaded, traced, site)
    before = module.w_q(x).detach().numpy()[:, module.d_head : 2 * module.d_head]
    np.testing.assert_allclose(turning.bare(loaded, traced, site.name, 1, "q"), before, atol=1e-5)
    found = turning.turned(loaded, traced, site.name, 1, 4, 1)
    scores = traced.activations[site.hook("scores")]
    assert found.score == pytest.approx(float(scores[1, 4, 1]), abs=1e-4)
    if "rotary_dim" in changes:
        assert found.angles.tolist() == [1.0, 0.01, 0.0]
    else:
        assert (found.angles < frequencies(6, 50.0).numpy()).any()


def test_a_model_that_does_not_turn_is_shown_as_if(translator):
    traced = trace(translator, "The cat ran", "猫跑开了")
    site = "encoder.blocks.1.attn"
    found = turning.turned(translator, traced, site, 1, 0, 0)
    scores = traced.activations[f"{site}.hook_scores"]
    q = turning.bare(translator, traced, site, 1, "q")
    np.testing.assert_array_equal(q, traced.activations[f"{site}.hook_q"][1].astype(np.float64))
    assert found.score == pytest.approx(float(scores[1, 0, 0]), abs=1e-5)  # offset 0: no turn
