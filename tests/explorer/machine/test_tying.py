"""A logit as a dot product, and nearness of words at both ends."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from explorer.exhibits.machine.tying import nearest, tying
from explorer.library import LoadedModel, open_model
from explorer.numerics import cosines
from explorer.runs.trace import trace

TEXT = "The cat sat on the mat."
Tiny = Callable[..., LoadedModel]


def test_cosines_and_neighbours_by_hand() -> None:
    rows = np.array([[1.0, 0], [3, 4], [0, 2], [-1, 0], [0, 0]])
    np.testing.assert_allclose(cosines(rows, np.tile([2.0, 0], (5, 1))), [1, 0.6, 0, -1, 0])
    assert nearest(rows, 0, 2).tolist() == [1, 2]
    assert nearest(rows, 2, 1).tolist() == [1]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", ["encoder-decoder", "decoder-only"])
@pytest.mark.parametrize("final_norm", [True, False])
def test_the_logit_is_the_product_of_its_columns(tiny, tied, family, final_norm) -> None:
    loaded = tiny("ends", family=family, tie_embeddings=tied, final_norm=final_norm)
    traced = trace(loaded, TEXT)
    found = tying(loaded, traced, 1)
    assert found.tied == tied
    assert found.error < 1e-4
    tables = 2 if family == "encoder-decoder" else 1  # of both languages, the output's own one
    assert found.saved == (tables * loaded.config.vocab_size * 24 if tied else 0)
    assert [each.logit for each in found.best] == sorted(traced.logits[1], reverse=True)[:8]
    for each in found.best:
        assert found.h * each.length * each.cosine == pytest.approx(each.logit, abs=1e-4)
    # A tied row is the word's own; untied, random ones have nothing to do with each other.
    assert (found.same == pytest.approx(1)) == tied
    assert abs(found.other) < 0.2


def test_what_stands_between_the_product_and_the_logit_is_counted(tiny: Tiny) -> None:
    """BERT's matrix and norm before its output, a bias of every word, Gemma 2's cap."""
    loaded = tiny(
        "more", family="encoder-only", head_net=True, unembed_bias=True, logit_cap=2.0, ffn="gelu"
    )
    with torch.no_grad():
        loaded.model.unembed.bias.copy_(torch.linspace(-1, 1, loaded.config.vocab_size))
    traced = trace(loaded, TEXT)
    found = tying(loaded, traced, 1)
    assert found.biased
    assert found.error < 1e-4
    for each in found.best:
        assert found.h * each.length * each.cosine == pytest.approx(each.logit, abs=1e-4)


def test_words_near_the_best_one_are_likely_in_a_trained_model_and_not_in_a_random_one(
    tiny: Tiny,
) -> None:
    trained = open_model("twin-right")
    assert tying(trained, trace(trained, "I love you."), 1).near_rank < 0.1
    random = tiny("random")  # not tied: its two matrices were drawn apart
    assert 0.3 < tying(random, trace(random, TEXT), 1).near_rank < 0.7


def test_a_model_without_an_output_matrix_is_refused(tiny: Tiny) -> None:
    silent = tiny("silent", family="encoder-only", lm_head=False)
    with pytest.raises(ValueError, match="silent has no output matrix"):
        tying(silent, trace(silent, TEXT), 0)
