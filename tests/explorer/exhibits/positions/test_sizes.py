"""Embeddings beside positions before training: sizes and what can be read from the sum."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from explorer.analysis.positions.sums import sums
from explorer.exhibits.positions.sizes import VectorSizes, similarities, sizes, std_of
from explorer.library import LoadedModel
from explorer.runs.trace import trace

Tiny = Callable[..., LoadedModel]


def test_what_is_compared_by_hand() -> None:
    words = np.array([[3.0, 0, 0, 0], [0, 3, 0, 0]])
    places = np.array([[0, 0, 4.0, 0], [0, 0, 0, 4]])
    token, position, same_word, same_place = similarities(words, places)
    assert (token, position) == (1.5, 2.0)  # sqrt(9 / 4), sqrt(16 / 4)
    assert same_word == pytest.approx(9 / 25)  # (3, 0, 4, 0) with (3, 0, 0, 4)
    assert same_place == pytest.approx(16 / 25)  # (3, 0, 4, 0) with (0, 3, 4, 0)
    alone = similarities(words[:1], places[:1])
    assert math.isnan(alone[2])
    assert math.isnan(alone[3])


def test_the_sizes_of_tutorials() -> None:
    """d = 512: N(0, 1) x sqrt(d) = 22.6; Xavier x sqrt(d) by vocabulary; d^-0.5 x sqrt(d) = 1."""
    root = math.sqrt(512)
    assert std_of("unit", 512, 1000) * root == pytest.approx(22.6, abs=0.05)
    for vocab_size, size in ((1000, 0.82), (2000, 0.64), (32_000, 0.18)):
        assert std_of("xavier", 512, vocab_size) * root == pytest.approx(size, abs=0.006)
    assert std_of("width", 512, 1000) * root == pytest.approx(1)


@pytest.mark.parametrize(
    ("same_word", "same_place", "verdict"),
    [(0.999, 0.0, "drown"), (0.7, 0.95, "dominate"), (0.9, 0.3, "both"), (math.nan, 0.95, None)],
)
def test_the_cosines_decide(same_word: float, same_place: float, verdict: str | None) -> None:
    assert VectorSizes("unit", True, 3, 1.0, 0.7, same_word, same_place).verdict == verdict
    assert VectorSizes("unit", True, 2, 1.0, 0.7, same_word, same_place).verdict is None


def test_every_way_is_drawn_beside_the_trained_model(tiny: Tiny) -> None:
    loaded = tiny("sizes", positions="sinusoidal")
    traced = trace(loaded, "The cat sat on the mat.", "猫坐在垫子上。")
    found = sums(traced, "tgt")
    assert found is not None
    own, *fresh = sizes(traced, "tgt", found)
    assert own.drawn is None
    assert own.position == pytest.approx(math.sqrt(0.5), abs=1e-6)
    assert [each.position for each in fresh] == pytest.approx([math.sqrt(0.5)] * 8, abs=1e-6)
    d = loaded.config.d_model
    for each in fresh:
        assert each.drawn is not None
        size = std_of(each.drawn, d, loaded.config.vocab_size) * (math.sqrt(d) ** each.scaled)
        assert each.token == pytest.approx(size, rel=0.1)  # five draws of a few words
    by_size = sorted(fresh, key=lambda each: each.token)
    assert [each.same_word for each in by_size] == sorted(each.same_word for each in fresh)
    assert by_size[0].verdict == "dominate"
