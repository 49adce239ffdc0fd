"""The same word in two sentences: equal vectors at the bottom, its own in each context above."""

import numpy as np
import pytest

from explorer.analysis.heads.contexts import shared_words
from explorer.library import LoadedModel
from explorer.runs.trace import trace

ONE, OTHER = "The cat sat on the mat.", "A dog ran after the cat."


def test_shared_words_begin_alike_and_part(translator: LoadedModel) -> None:
    one, other = trace(translator, ONE), trace(translator, OTHER)
    found = shared_words(one, other, "src")
    assert "cat" in {word.token for word in found}
    assert "." not in {word.token for word in found}  # no word, though both sentences end with it
    for word in found:
        assert one.src_str_tokens[word.places[0]] == other.src_str_tokens[word.places[1]]
        assert word.cosines.shape == (1 + translator.config.encoder_layers,)
        assert word.cosines[0] == pytest.approx(1)
        assert (word.cosines[1:] < 0.999).all()


def test_the_cosine_is_that_of_the_vectors(translator: LoadedModel) -> None:
    one, other = trace(translator, ONE), trace(translator, OTHER)
    word = shared_words(one, other, "src")[0]
    a, b = (
        each.activations["encoder.blocks.1.hook_resid_post"][place]
        for each, place in zip((one, other), word.places, strict=True)
    )
    expected = (a * b).sum() / np.sqrt((a**2).sum() * (b**2).sum())
    assert word.cosines[2] == pytest.approx(float(expected), abs=1e-5)


def test_a_sentence_beside_itself_has_cosine_one(writer: LoadedModel) -> None:
    same = trace(writer, ONE)
    found = shared_words(same, same, "tgt")
    assert found
    for word in found:
        np.testing.assert_allclose(word.cosines, 1, atol=1e-6)


def test_nothing_shared_is_empty_and_two_models_are_refused(
    translator: LoadedModel, writer: LoadedModel
) -> None:
    assert shared_words(trace(translator, "猫"), trace(translator, "dog"), "src") == ()
    with pytest.raises(ValueError, match="the traces come from two models"):
        shared_words(trace(translator, ONE), trace(writer, ONE), "tgt")
