"""The n-gram that language models are held against: it is a distribution, and right by hand."""

import pytest

from models.training.ngram import Trigram

ROWS = [(3, 4, 5, 2), (3, 4, 6, 2), (4, 5, 2), (3, 3, 4, 5, 2)]


@pytest.mark.parametrize("context", [(1, 1), (1, 3), (3, 4), (4, 5), (6, 6), (9, 9)])
def test_what_may_follow_adds_up_to_one(context: tuple[int, int]) -> None:
    model = Trigram(ROWS, vocab_size=10, bos=1)
    probs = [model.prob(context, token) for token in range(10)]
    assert sum(probs) == pytest.approx(1)
    assert min(probs) > 0


def test_one_probability_by_hand() -> None:
    # "1 1 3" and "1 1 4" once each. Behind 1: 3 and 4, each after one context. Alone: 3 stands
    # behind one token (1), 4 behind two (1, 3).
    model = Trigram([(3,), (4,), (3, 4)], vocab_size=5, bos=1)
    alone = (1 - 0.75) / 3 + 0.75 * 2 / 3 / 5
    behind_1 = (1 - 0.75) / 2 + 0.75 * 2 / 2 * alone
    expected = (2 - 0.75) / 3 + 0.75 * 2 / 3 * behind_1
    assert model.prob((1, 1), 3) == pytest.approx(expected)


def test_text_like_the_counted_is_less_surprising() -> None:
    model = Trigram(ROWS, vocab_size=10, bos=1)
    assert model.perplexity([(3, 4, 5, 2)]) < model.perplexity([(5, 4, 3, 2)])
    assert Trigram(ROWS, 10, 1).perplexity([(9, 9)]) > 10


def test_nothing_to_count_is_refused() -> None:
    with pytest.raises(ValueError, match="needs text"):
        Trigram([], vocab_size=5, bos=1)
