"""Position vectors, what is added to tokens, rotations and learned tables: by hand and as run."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from new_kinds import registered
from torch import nn

from explorer.analysis.positions import encoding as encodings, turning
from explorer.analysis.score.steps import module_of, site_inputs
from explorer.exhibits.positions import sum as summing
from explorer.exhibits.positions.rotary import layout_difference
from explorer.exhibits.positions.sum import room
from explorer.exhibits.positions.table import projected_gram, spread_by_distance
from explorer.figures.positions.sums import plane
from explorer.runs.rerun import rows_of
from explorer.runs.run import run
from explorer.runs.trace import trace
from models.hooks import Edits
from models.positions import Scaling, frequencies, sinusoidal_table
from models.transformer import build_model


def test_sines_by_hand_depend_on_distance_only_and_learned_vectors_do_not():
    # d_model 4: theta = 1 and 1/100.
    encoding = encodings.table(3, 4)
    np.testing.assert_allclose(
        encoding[2], [np.sin(2), np.cos(2), np.sin(0.02), np.cos(0.02)], atol=1e-7
    )
    np.testing.assert_allclose(encodings.wavelengths(4), 2 * np.pi * np.array([1, 1, 100, 100]))
    assert encodings.gram(encoding)[0, 2] == pytest.approx(np.cos(2) + np.cos(0.02), abs=1e-6)
    with pytest.raises(ValueError, match="odd"):
        encodings.wavelengths(5)
    sines = encodings.table(120, 512)
    dots = encodings.dot_by_distance(sines)
    assert dots[[0, 1, 10, 100]] == pytest.approx([256, 249.1, 173.8, 112.0], abs=0.05)
    for apart in (1, 10, 100):
        np.testing.assert_allclose(np.diag(encodings.gram(sines), apart), dots[apart], atol=1e-4)
    longest = encodings.wavelengths(512)
    assert (longest[0], longest[-1]) == pytest.approx((6.28, 60611), rel=1e-3)
    encoding = np.random.default_rng(0).normal(size=(20, 8))
    dots = encodings.dot_by_distance(encoding)
    assert np.ptp(np.diag(encodings.gram(encoding), 1)) > 0.1
    assert dots[19] == pytest.approx(encoding[0] @ encoding[19])


@pytest.mark.parametrize("stream", ["src", "tgt"])
def test_the_table_of_a_model_is_what_it_adds(stream, tiny):
    for kind in ("sinusoidal", "learned"):
        loaded = tiny(positions=kind, n_ctx=9)
        traced = trace(loaded, "The cat ran", "我爱你猫")
        stack = {"src": "encoder", "tgt": "decoder"}[stream]
        added = traced.activations[f"{stack}.hook_pos_embed"]
        found = encodings.model_table(loaded, len(added), stream)
        np.testing.assert_array_equal(found, added)
    assert len(encodings.model_table(tiny(positions="learned", n_ctx=9), 50, stream)) == 9


def test_the_position_part_of_the_scores_behind_the_projections(tiny):
    # Scores are bilinear, so with biases off and embeddings at zero nothing else is left of them.
    loaded = tiny(bias=False, n_kv_heads=2)
    site = "encoder.blocks.0.attn"
    traced = trace(loaded, "The cat ran away")
    n = len(traced.src_tokens)
    hook, silent = f"{site}.hook_scores", Edits({"encoder.hook_embed": torch.zeros_like})
    (scores,) = run(loaded.model, rows_of(traced), {hook}, silent)[hook].numpy()
    for head in range(4):
        found = projected_gram(loaded, site, head, n)
        np.testing.assert_allclose(found, scores[head], atol=1e-5)
    assert projected_gram(loaded, "decoder.blocks.0.cross_attn", 0, n) is None
    assert projected_gram(tiny(positions="none"), site, 0, n) is None


def test_what_survives_the_projections(tiny):
    plain = encodings.gram(encodings.table(40, 24))
    assert spread_by_distance(plain) < 1e-6
    assert encodings.asymmetry(plain) < 1e-7
    found = projected_gram(tiny(), "encoder.blocks.0.attn", 0, 40)
    assert spread_by_distance(found) > 0.2
    assert encodings.asymmetry(found) > 0.2
    by_hand = np.array([[1.0, 2.0], [0.0, 3.0]])  # means 2, 2 and 0: the diagonal keeps 1 and 3
    assert spread_by_distance(by_hand) == pytest.approx(2 / 5)
    assert encodings.asymmetry(by_hand) == pytest.approx(8**0.5 / (2 * 14**0.5))


def test_words_and_positions_have_sizes_in_their_only_stream_too(tiny, writer):
    loaded = tiny()
    traced = trace(loaded, "The cat ran", "爱猫你")
    found = encodings.sizes(traced, "src")
    words, added = found
    np.testing.assert_allclose(added, (24 / 2) ** 0.5, rtol=1e-6)  # sines and cosines: sqrt(d / 2)
    weight = loaded.model.get_parameter("encoder.embed.weight").numpy()
    expected = np.linalg.norm(weight[list(traced.src_tokens)], axis=1) * 24**0.5
    np.testing.assert_allclose(words, expected, rtol=1e-5)
    assert encodings.model_table(writer, 5, "src") is None
    np.testing.assert_array_equal(
        encodings.model_table(writer, 5), encodings.table(5, writer.config.d_model)
    )
    traced = trace(writer, "The cat ran")
    assert encodings.sizes(traced, "tgt") is not None


# Token + position: the sum of the Trace, angles by hand, and the price of concatenating.
TEXT = "The cat sat on the mat."


def test_angles_and_the_shared_room_by_hand():
    east, north = np.array([2.0, 0.0]), np.array([0.0, 5.0])
    assert summing.angle(east, north) == pytest.approx(90)
    assert summing.angle(east, east + np.array([0.0, 2.0])) == pytest.approx(45)
    assert summing.angle(east, -3 * east) == pytest.approx(180)
    assert np.isnan(summing.angle(east, np.zeros(2)))
    # Positions in the plane of the first two of four axes; tokens half in it.
    positions = np.array([[3.0, 0, 0, 0], [0, 2, 0, 0], [3, 2, 0, 0]])
    found = summing.shared_room(positions, np.array([[1.0, 0, 1, 0], [0, 1, 0, 1]]))
    assert (found.n, found.of) == (2, 4)
    assert found.share == pytest.approx(0.5)
    assert found.by_chance == 0.5
    assert summing.shared_room(positions, np.array([[0, 0, 5.0, 1.0]])).share == pytest.approx(0)


@pytest.mark.parametrize("scaled", [True, False])
def test_the_sum_is_what_enters_the_first_block(tiny, scaled):
    loaded = tiny("scaled", scale_embeddings=scaled)
    traced = trace(loaded, TEXT)
    found = summing.sums(traced, "src")
    np.testing.assert_allclose(
        found.total, traced.activations["encoder.blocks.0.hook_resid_pre"], atol=1e-6
    )
    n, d = found.token.shape
    np.testing.assert_allclose(found.position, sinusoidal_table(n, d).numpy(), atol=1e-6)
    table = loaded.model.get_parameter("encoder.embed.weight").numpy()
    factor = d**0.5 if scaled else 1.0
    np.testing.assert_allclose(found.token, factor * table[list(traced.src_tokens)], rtol=1e-5)
    token, position, total = found.lengths(2)
    # The law of cosines, from the angle to the length of the sum.
    cosine = np.cos(np.radians(found.angle(2)))
    assert total**2 == pytest.approx(
        token**2 + position**2 + 2 * token * position * cosine, rel=1e-4
    )
    assert position == pytest.approx((d / 2) ** 0.5, rel=1e-5)


@pytest.mark.parametrize("positions", ["rotary", "alibi", "none"])
def test_nothing_is_shown_of_a_sum_where_nothing_is_added(tiny, positions):
    loaded = tiny("other", positions=positions)
    traced = trace(loaded, TEXT)
    assert summing.sums(traced, "src") is encodings.sizes(traced, "src") is None
    assert encodings.model_table(loaded, 5, "src") is None


def test_random_embeddings_are_in_the_way_as_chance_has_it(tiny):
    generator = np.random.default_rng(0)
    table = sinusoidal_table(64, 32).numpy()
    found = summing.shared_room(table, generator.normal(size=(4000, 32)))
    assert found.share == pytest.approx(found.by_chance, abs=0.02)
    assert 0 < room(tiny("tiny"), "tgt").share < 1


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("family", ["encoder-decoder", "decoder-only"])
def test_widths_are_those_of_models_that_concatenate(tiny, tied, positions, family):
    config = tiny("x", family=family, positions=positions, tie_embeddings=tied).config
    found = summing.widths(config)
    d, vocab = config.d_model, config.vocab_size
    streams = 2 if family == "encoder-decoder" else 1
    assert found.mapped - found.summed == streams * nn.Linear(2 * d, d, bias=False).weight.numel()

    # A model of the whole width whose tables are exchanged for those of half that width.
    wide = build_model(replace(config, d_model=2 * d, tie_embeddings=False))
    total = sum(p.numel() for p in wide.parameters())
    tables = 1 if tied else streams  # a tied pair of streams shares one
    total -= streams * vocab * 2 * d
    total += tables * vocab * d
    if positions == "learned":
        total -= streams * config.n_ctx * d
    assert found.wide == total


def test_arrows_have_true_angles():
    figure = plane((3.0, 4.0), 90.0, ["a", "b", "a + b"])
    tips = [(each["x"], each["y"]) for each in figure["layout"]["annotations"]]
    np.testing.assert_allclose(tips, [(3, 0), (3, 4), (3, 4)], atol=1e-9)
    assert figure["layout"]["yaxis"]["scaleanchor"] == "x"


# Rotations up close: against the model's own scores, and both layouts of pairs.
NEAR = {"rope_base": 900.0, "near_rope_base": 20.0, "near_layers": (0,)}


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
    wrong, left = layout_difference(q, k, frequencies(16).numpy(), 4.0)
    assert wrong > 0.5
    assert left < 1e-12
    q = np.array([1.0, 0.0, 1.0, 0.0])
    offsets = np.arange(-3, 4)
    expected = (np.cos(offsets) + np.cos(offsets / 100)) / 2
    np.testing.assert_allclose(
        turning.score_by_offset(q, q, offsets, np.array([1, 0.01]), 2.0), expected
    )


@pytest.mark.parametrize(
    ("changes", "angles"),
    [
        ({"n_kv_heads": 1}, None),
        ({"positions": "spiral"}, [1, 1 / 2, 1 / 3]),
        # Gemma 3: the first layer's base is short. Pythia turns a part of each head, Llama 3
        # stretches the angles.
        (NEAR, frequencies(6, 20.0).tolist()),
        ({"rotary_dim": 4}, [1.0, 0.01, 0.0]),
        ({"rope_scaling": Scaling((1.0, 2.0, 8.0)), "rope_base": 50.0}, None),
        ({"rope_scaling": Scaling(n_ctx=4, growth=3.0), "rope_base": 50.0}, None),
    ],
)
def test_pairs_add_up_to_the_model_s_own_score(changes, angles, tiny):
    with registered("spiral"):
        design = {"positions": "rotary", "n_kv_heads": 2, **changes}
        loaded = tiny("writer", family="decoder-only", **design)
        traced = trace(loaded, "The cat sat on the mat")
        for site in traced.sites:
            scores = traced.activations[site.hook("scores")]
            module, (x, _) = module_of(loaded, site), site_inputs(loaded, traced, site)
            projected = module.w_q(x).detach().numpy()
            for head, query, key in ((0, 4, 1), (3, 2, 2), (1, 1, 5)):
                found = turning.turned(loaded, traced, site.name, head, query, key)
                assert found.score == pytest.approx(float(scores[head, query, key]), abs=1e-4)
                q, k = (turning.bare(loaded, traced, site.name, head, what) for what in "qk")
                np.testing.assert_allclose(q, projected[:, 6 * head : 6 * head + 6], atol=1e-5)
                curve = turning.score_by_offset(
                    q[query], k[key], np.arange(-5, 6), found.angles, loaded.config.divisor
                )
                assert curve[query - key + 5] == pytest.approx(found.score, abs=1e-9)
                assert curve[5] == pytest.approx(q[query] @ k[key] / 6**0.5)
                lengths = np.linalg.norm(found.q, axis=1)
                np.testing.assert_allclose(np.linalg.norm(found.q_turned, axis=1), lengths)
        first, last = (turning.angles_of(loaded, traced, site.name) for site in traced.sites)
    if angles is not None:
        np.testing.assert_allclose(first, angles)
    if "rope_scaling" in changes:
        assert (last < frequencies(6, 50.0).numpy()).any()
    if "near_layers" in changes:
        np.testing.assert_allclose(last, frequencies(6, 900.0).numpy())


def test_a_model_that_does_not_turn_is_shown_as_if(translator):
    traced = trace(translator, "The cat ran", "猫跑开了")
    site = "encoder.blocks.1.attn"
    found = turning.turned(translator, traced, site, 1, 0, 0)
    scores = traced.activations[f"{site}.hook_scores"]
    q = turning.bare(translator, traced, site, 1, "q")
    np.testing.assert_array_equal(q, traced.activations[f"{site}.hook_q"][1].astype(np.float64))
    assert found.score == pytest.approx(float(scores[1, 0, 0]), abs=1e-5)  # offset 0: no turn
