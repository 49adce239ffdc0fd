"""Token + position: the sum of the Trace, angles by hand, and the price of concatenating."""

from dataclasses import replace

import numpy as np
import pytest
from torch import nn

from explorer.analysis.positions import sums as summing
from explorer.analysis.positions.sums import room
from explorer.figures.positions.sums import plane, strips
from explorer.runs.trace import trace
from explorer.text import family
from models.positions import sinusoidal_table
from models.transformer import build_model

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
def test_there_is_no_sum_where_nothing_is_added(tiny, positions):
    assert summing.sums(trace(tiny("other", positions=positions), TEXT), "src") is None


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


def test_arrows_have_true_angles_and_strips_one_scale():
    figure = plane((3.0, 4.0), 90.0, ["a", "b", "a + b"])
    tips = [(each["x"], each["y"]) for each in figure["layout"]["annotations"]]
    np.testing.assert_allclose(tips, [(3, 0), (3, 4), (3, 4)], atol=1e-9)
    assert figure["layout"]["yaxis"]["scaleanchor"] == "x"
    words = family("figures.positions", lang="en")
    drawn = strips(np.array([[1.0, -2], [0, 5], [1, 3]]), ["a", "b", "c"], words=words)
    assert drawn.scale.high == 5
    with pytest.raises(ValueError, match="values"):
        strips(np.ones((2, 2)), ["a"], words=words)
