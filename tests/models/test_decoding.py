"""Decoding with real (tiny, random) models: cache, padding, hooks, forced prefixes, refusals.

The strategies themselves are tested in tests/models/test_strategies.py, on fixed logits.
"""

import copy
import itertools
import math

import pytest
import torch
from families import WRITERS
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from tables import chosen, finished

from models.config import ModelConfig
from models.decoding import decode
from models.hooks import Edits, visiting
from models.positions import POSITIONS
from models.rows import Rows
from models.steps import best, lineage
from models.strategies import Beam, Greedy, Sample
from models.transformer import EncoderDecoder, Model, build_model

STRATEGIES = [Greedy(), Sample(temperature=1.5, top_p=0.9, seed=2), Beam(3, 0.7)]
BOTH = [(family, positions) for family in WRITERS for positions in POSITIONS]
SRC = torch.tensor([[1, 9, 3, 7, 5, 2], [1, 4, 11, 0, 0, 0], [1, 6, 10, 8, 0, 0]])
VALID = SRC != 0
LIMIT = 7


def row_logits(model: Model, src: torch.Tensor, output: list[int]) -> torch.Tensor:
    """Teacher forcing on one row: the logits that follow bos or the prompt, and each output."""
    if isinstance(model, EncoderDecoder):
        return model.read(Rows(torch.tensor([[1, *output]]), src=src))[0]
    return model.read(Rows(torch.cat((src, torch.tensor([output]).long()), dim=1)))[
        0, src.shape[1] - 1 :
    ]


def assert_same_steps(one, other, atol=1e-10):
    for a, b in zip(one, other, strict=True):
        assert chosen(a) == chosen(b)
        assert [h.tokens for hs in a.live for h in hs] == [h.tokens for hs in b.live for h in hs]
        torch.testing.assert_close(a.log_probs, b.log_probs, atol=atol, rtol=0)


# One answer, however it is computed


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("family", "positions"), BOTH)
def test_cached_steps_equal_uncached_ones(wide_model, family, positions, strategy):
    model = wide_model(family, positions)
    cached, uncached = (
        list(decode(model, SRC, strategy, LIMIT, src_valid=VALID, use_cache=use_cache))
        for use_cache in (True, False)
    )
    assert_same_steps(cached, uncached)


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


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("family", WRITERS)
def test_log_probs_and_sums_are_the_models_own(wide_model, family, strategy):
    """Teacher forcing on the answer gives the same numbers, step by step and in all."""
    model, src = wide_model(family), SRC[:1]
    steps = list(decode(model, src, strategy, LIMIT))
    for answer in (*steps[-1].ended[0], *steps[-1].live[0]):
        with torch.no_grad():
            own = row_logits(model, src, list(answer.tokens)).log_softmax(-1)
        rows = lineage(steps, answer)
        assert len(rows) == len(answer.tokens)
        for i, (row, token) in enumerate(zip(rows, answer.tokens, strict=True)):
            torch.testing.assert_close(steps[i].log_probs[row], own[i], atol=1e-10, rtol=0)
            read = steps[i].input_tokens[row].tolist()
            assert read[len(read) - i :] == list(answer.tokens[:i])
            assert steps[i].probs[row, token] > 0
        total = sum(own[i, token].item() for i, token in enumerate(answer.tokens))
        assert answer.logprob == pytest.approx(total, abs=1e-9)
        assert answer.score == pytest.approx(strategy.score(total, len(rows)), abs=1e-9)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("family", WRITERS)
def test_a_wide_beam_finds_the_best_of_all_outputs(wide_model, family, penalty):
    model, limit = wide_model(family, vocab_size=5), 4
    src = torch.tensor([[1, 4, 3]])
    scores = {}
    for length in range(1, limit + 1):
        for body in itertools.product([0, 1, 3, 4], repeat=length - 1):
            output = [*body, 2]
            with torch.no_grad():
                own = row_logits(model, src, output).log_softmax(-1)
            logprob = sum(own[i, token].item() for i, token in enumerate(output))
            scores[tuple(output)] = logprob / length**penalty
    *_, last = decode(model, src, Beam(5**limit, penalty), limit)
    assert [h.tokens for h in last.ended[0]] == sorted(scores, key=lambda o: -scores[o])


@pytest.mark.parametrize("family", WRITERS)
def test_a_model_in_half_precision_is_summed_in_float32(wide_model, family):
    model = copy.deepcopy(wide_model(family)).bfloat16()
    for step in decode(model, SRC, Greedy(), 3, src_valid=VALID):
        assert step.log_probs.dtype == torch.float32
        torch.testing.assert_close(step.log_probs.exp().sum(-1), torch.ones(len(step.log_probs)))


# Forced prefixes


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


# Limits and refusals


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


@pytest.fixture
def refuse(wide_model):
    """refuse(message, src=..., ...): `decode` itself raises, before any step is asked for."""

    def check(message, *, error=ValueError, src=SRC, limit=4, **options):
        with pytest.raises(error, match=message):
            decode(wide_model("encoder-decoder"), src, Greedy(), limit, **options)

    return check


def test_what_cannot_be_decoded_is_refused_at_once_with_the_reason(refuse):
    refuse("max_new_tokens is -1: it must be a whole number", limit=-1)
    refuse("max_new_tokens is True", limit=True)
    refuse("n_candidates is -2", n_candidates=-2)
    refuse("src holds 13: token ids are whole numbers from 0 to 12", src=SRC + 2)
    refuse("src holds -1", src=SRC - 1)
    refuse(r"src is torch.int64 \(1, 0\): .*not empty", src=SRC[:1, :0])
    refuse(r"src is torch.int64 \(0, 6\)", src=SRC[:0])
    refuse("row 1 of src has no real token", src_valid=VALID & torch.tensor([[1], [0], [1]]).bool())
    refuse("prefix holds 13", prefix=[4, 13])
    refuse("prefix holds eos_id = 2 at place 0", prefix=[2, 4])
    refuse("prefix has 5 tokens: max_new_tokens = 4 leaves no room", prefix=[4] * 5)


def test_tensors_of_a_wrong_kind_are_refused(refuse):
    # Run-time type checks, where they are on, refuse these first.
    for_either = (ValueError, TypeCheckError)
    refuse("src", error=for_either, src=SRC[0])
    refuse("src", error=for_either, src=SRC.float())
    refuse("src_valid", error=for_either, src_valid=VALID[:, :-1])
    refuse("src_valid", error=for_either, src_valid=VALID.long())
    refuse("prefix", error=for_either, prefix=[4.0])


def test_a_model_in_training_mode_is_refused():
    model = build_model(ModelConfig(vocab_size=13, d_model=4, n_heads=2, n_layers=1, d_ff=4))
    with pytest.raises(ValueError, match=r"training mode.*call model\.eval\(\)"):
        decode(model, SRC, Greedy(), 4)
