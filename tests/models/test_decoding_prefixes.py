"""Forced prefixes are obeyed, and outputs end where the model or its positions end."""

import math

import pytest
import torch
from families import WRITERS
from tables import chosen, finished

from models.decoding import best, decode
from models.hooks import Edits, visiting
from models.positions import POSITIONS
from models.strategies import Beam, Greedy, Sample

STRATEGIES = [Greedy(), Sample(temperature=1.5, top_p=0.9, seed=2), Beam(3, 0.7)]
SRC = torch.tensor([[1, 9, 3, 7, 5, 2], [1, 4, 11, 0, 0, 0], [1, 6, 10, 8, 0, 0]])
VALID = SRC != 0
LIMIT = 7


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("family", WRITERS)
def test_a_forced_prefix_is_obeyed_and_shown(wide_model, family, strategy):
    model, prefix = wide_model(family), [11, 5]
    steps = list(decode(model, SRC, strategy, 6, src_valid=VALID, prefix=prefix))
    assert [step.forced for step in steps][:3] == [True, True, False]
    for index, token in enumerate(prefix):
        assert chosen(steps[index]) == [token] * 3
        assert steps[index].log_probs.shape == (3, 13)
    assert all(h.tokens[:2] == (11, 5) for h in steps[-1].best)
    free = next(decode(model, SRC, strategy, 6, src_valid=VALID))
    torch.testing.assert_close(steps[0].log_probs, free.log_probs)  # the model's opinion all along


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_forced_prefix_goes_on_as_a_longer_prompt_does(wide_model, positions):
    model, prefix = wide_model("decoder-only", positions), [11, 5]
    longer = torch.cat((SRC[:1], torch.tensor([prefix])), dim=1)
    forced = list(decode(model, SRC[:1], Greedy(), 6, prefix=prefix))[2:]
    assert_same_log_probs(forced, list(decode(model, longer, Greedy(), 4)))


def assert_same_log_probs(one, other):
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a.log_probs, b.log_probs, atol=1e-10, rtol=0)


@pytest.mark.parametrize("family", WRITERS)
def test_forcing_the_models_own_output_changes_nothing(wide_model, family):
    model = wide_model(family)
    for strategy in (Greedy(), Sample(seed=4)):
        answer = best(decode(model, SRC[:1], strategy, LIMIT))[0]
        for n in range(1, len(answer.tokens) + 1):
            again = best(decode(model, SRC[:1], strategy, LIMIT, prefix=answer.tokens[:n]))[0]
            assert again.tokens == answer.tokens
            assert again.logprob == pytest.approx(answer.logprob)


def test_a_prefix_may_end_the_output(wide_model):
    *_, last = decode(
        wide_model("encoder-decoder"), SRC, Beam(2), 6, src_valid=VALID, prefix=[4, 2]
    )
    assert (last.index, finished(last)) == (1, [True] * 3)
    assert {h.tokens for h in last.best} == {(4, 2)}


def test_learned_positions_end_at_n_ctx(wide_model):
    for family, given_tokens in (("encoder-decoder", 1), ("decoder-only", 6)):
        model = wide_model(family, "learned")
        most = 14 - given_tokens + 1  # the last token is written, never read
        assert best(decode(model, SRC, Sample(), most, src_valid=VALID))
        with pytest.raises(ValueError, match=rf"max_new_tokens is {most + 1}: .* n_ctx = 14"):
            decode(model, SRC, Greedy(), most + 1, src_valid=VALID)
    with pytest.raises(ValueError, match="src has 15 tokens: only n_ctx = 14"):
        decode(wide_model("encoder-decoder", "learned"), torch.full((1, 15), 4), Greedy(), 2)


@pytest.mark.parametrize("positions", sorted(set(POSITIONS) - {"learned"}))
@pytest.mark.parametrize("family", WRITERS)
def test_other_positions_run_on_beyond_n_ctx(wide_model, family, positions):
    model = wide_model(family, positions)
    model_never_ends = Edits({"hook_logits": lambda t: t.index_fill(-1, torch.tensor([2]), -1e9)})
    with visiting(model_never_ends):
        answer = best(decode(model, SRC[:1], Greedy(), 20))[0]
    assert len(answer.tokens) == 20
    assert math.isfinite(answer.logprob)
