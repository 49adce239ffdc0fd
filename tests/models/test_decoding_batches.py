"""A sentence in a padded batch is decoded as it is alone, and padding leaks nowhere."""

import pytest
import torch
from families import WRITERS
from hypothesis import given, strategies as st
from tables import chosen

from models.decoding import best, decode
from models.positions import POSITIONS
from models.strategies import Beam, Greedy, Sample

STRATEGIES = [Greedy(), Sample(temperature=1.5, top_p=0.9, seed=2), Beam(3, 0.7)]
BOTH = [(family, positions) for family in WRITERS for positions in POSITIONS]
SRC = torch.tensor([[1, 9, 3, 7, 5, 2], [1, 4, 11, 0, 0, 0], [1, 6, 10, 8, 0, 0]])
VALID = SRC != 0
LIMIT = 7


def assert_same_steps(one, other, atol=1e-10):
    for a, b in zip(one, other, strict=True):
        assert chosen(a) == chosen(b)
        assert [h.tokens for hs in a.live for h in hs] == [h.tokens for hs in b.live for h in hs]
        torch.testing.assert_close(a.log_probs, b.log_probs, atol=atol, rtol=0)


@pytest.mark.parametrize("strategy", [Greedy(), Beam(3, 0.7)])
@pytest.mark.parametrize("side", ["right", "left", "both"])
@pytest.mark.parametrize(("family", "positions"), BOTH)
def test_a_sentence_in_a_padded_batch_comes_out_as_alone(
    wide_model, family, positions, side, strategy
):
    model, src = wide_model(family, positions), SRC
    if side == "left":
        src = torch.stack([row.roll(int((row == 0).sum())) for row in SRC])
    elif side == "both":
        src = torch.nn.functional.pad(SRC, (2, 1))
    together = best(decode(model, src, strategy, LIMIT, src_valid=src != 0))
    for row, answer in zip(SRC, together, strict=True):
        alone = best(decode(model, row[row != 0][None], strategy, LIMIT))[0]
        assert (answer.tokens, answer.finished) == (alone.tokens, alone.finished)
        assert answer.logprob == pytest.approx(alone.logprob, abs=1e-9)
        assert answer.score == pytest.approx(alone.score, abs=1e-9)


def test_the_models_here_say_different_things_and_some_stop(wide_model):
    """Without this the comparisons above could all be between equal, endless outputs."""
    answers = [
        answer
        for family, positions in BOTH
        for strategy in STRATEGIES
        for answer in best(
            decode(wide_model(family, positions), SRC, strategy, LIMIT, src_valid=VALID)
        )
    ]
    assert len({a.tokens for a in answers}) > len(answers) / 3
    assert any(a.finished and len(a.tokens) > 1 for a in answers)
    assert any(not a.finished for a in answers)


@given(
    padding=st.lists(st.integers(0, 12), min_size=5, max_size=5),
    family=st.sampled_from(list(WRITERS)),
    positions=st.sampled_from(list(POSITIONS)),
)
def test_what_stands_at_padding_leaks_nowhere(wide_model, padding, family, positions):
    model, src = wide_model(family, positions), SRC.clone()
    src[~VALID] = torch.tensor(padding)
    clean = list(decode(model, SRC, Beam(2), 4, src_valid=VALID))
    edited = list(decode(model, src, Beam(2), 4, src_valid=VALID))
    assert_same_steps(clean, edited, atol=0)
