"""Learned position vectors: what is known of their training, and how alike they are."""

from pathlib import Path

import numpy as np
import pytest
import torch

from explorer.analysis.positions.encoding import table
from explorer.exhibits.positions.learned import alike_by_distance, by_chance, learned
from explorer.library import CHECKPOINTS, LoadedModel, list_models, open_model
from models.config import ModelConfig
from models.training.recipe import read_recipe
from models.training.vocabulary import train_tokenizer
from models.transformer import build_model

CONFIG = ModelConfig(
    vocab_size=40, d_model=24, n_layers=1, n_heads=2, d_ff=8, n_ctx=30, positions="learned"
)


def trained(name: str, seed: int, n: int) -> LoadedModel:
    """A model from a seed whose first `n` source positions something has moved since."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = build_model(CONFIG).eval().requires_grad_(False)
    weight = model.get_parameter("encoder.positions.weight")
    weight[:n] += 0.1 * weight[:n].roll(1, 0)
    for parameter in model.parameters():
        parameter.copy_(parameter.half())  # as it is shipped
    return LoadedModel(name, model, train_tokenizer(["ab"], 20), CONFIG, Path(name))


def test_training_came_as_far_as_something_moved_if_the_beginning_is_known():
    seed = read_recipe("twin-learned", []).training.seed
    for name in ("twin-learned", "twin-learned@40"):
        loaded = trained(name, seed, 11)
        found = learned(loaded, "src")
        assert found.reached == found.n_trained == 11
        assert found.moved[:11].min() > 0.03
        assert found.moved[11:].max() < 5e-4  # rounding to 16 bits
        np.testing.assert_allclose(found.before[11:], found.vectors[11:], rtol=1e-3, atol=1e-6)
        np.testing.assert_array_equal(found.sines, table(30, 24))
    assert learned(loaded, "tgt").reached == 0
    assert learned(trained("twin-learned", seed + 1, 3), "src").moved is None
    unknown = learned(trained("my-own", seed, 3), "src")
    assert unknown.before is None
    assert unknown.added is None
    assert unknown.n_trained == 30


@pytest.mark.parametrize(
    ("picture", "n_marks", "covered"), [((4, 6, 2, 2), None, 6), ((4, 4, 2, 2, 3), 1, 5)]
)
def test_every_picture_covers_the_positions_of_its_patches(tiny, picture, n_marks, covered):
    """No initial vectors are needed to know it; how long the read words were stays unknown."""
    alone = {"family": "encoder-only", "lm_head": False} if n_marks else {}
    loaded = tiny(positions="learned", n_ctx=9, picture=picture, n_marks=n_marks, **alone)
    found = learned(loaded, loaded.model.reads[0])
    assert (found.reached, found.n_trained, found.moved) == (covered, covered, None)
    if not n_marks:
        assert learned(loaded, "tgt").reached is None


def test_learned_positions_have_vectors_whose_likeness_goes_by_distance(tiny):
    for loaded in (tiny(), tiny(positions="none")):
        with pytest.raises(ValueError, match="no learned positions"):
            learned(loaded, "src")
    writer = tiny("writer", family="decoder-only", positions="learned")
    with pytest.raises(ValueError, match="src"):
        learned(writer, "src")
    assert learned(writer, "tgt").vectors.shape == (160, 24)
    by_hand = np.array([[2.0, 0.0], [0.0, 3.0], [4.0, 0.0]])
    np.testing.assert_allclose(alike_by_distance(by_hand), [1, 0, 1], atol=1e-12)
    pairs = np.cos(1 / 10000.0 ** (np.arange(12) / 12)).mean()  # sum of cos(n theta) over d / 2
    assert alike_by_distance(table(30, 24))[1] == pytest.approx(pairs, abs=1e-5)
    drawn = np.random.default_rng(0).normal(size=(200, 40, 96))
    chance = np.array([alike_by_distance(each)[1] for each in drawn])
    assert (np.abs(chance) < by_chance(40, 96)).mean() > 0.98


@pytest.mark.skipif("twin-learned" not in list_models(CHECKPOINTS), reason="no twin-learned")
@pytest.mark.parametrize("stream", ["src", "tgt"])
def test_the_shipped_twin_never_met_its_later_positions(stream):
    found = learned(open_model("twin-learned"), "src" if stream == "src" else "tgt")
    assert 15 <= found.reached <= 25  # pairs of at most 22 characters a side
    assert found.moved[: found.reached].mean() > 50 * found.moved[found.reached :].max()
