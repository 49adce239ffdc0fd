"""Decoding: with the cache as without, the model's own log-probabilities, and refusals."""

import copy
import itertools

import pytest
import torch
from families import WRITERS
from jaxtyping import TypeCheckError
from tables import chosen

from models.config import ModelConfig
from models.decoding import decode
from models.positions import POSITIONS
from models.rows import Rows
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


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("family", "positions"), BOTH)
def test_cached_steps_equal_uncached_ones(wide_model, family, positions, strategy):
    model = wide_model(family, positions)
    cached, uncached = (
        list(decode(model, SRC, strategy, LIMIT, src_valid=VALID, use_cache=use_cache))
        for use_cache in (True, False)
    )
    assert_same_steps(cached, uncached)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("family", WRITERS)
def test_log_probs_and_sums_are_the_models_own(wide_model, family, strategy):
    """Teacher forcing on the answer gives the same numbers, step by step and in all."""
    model, src = wide_model(family), SRC[:1]
    steps = list(decode(model, src, strategy, LIMIT))
    for answer in (*steps[-1].ended[0], *steps[-1].live[0]):
        with torch.no_grad():
            own = row_logits(model, src, list(answer.tokens)).log_softmax(-1)
        assert len(answer.rows) == len(answer.tokens)
        for i, (row, token) in enumerate(zip(answer.rows, answer.tokens, strict=True)):
            torch.testing.assert_close(steps[i].log_probs[row], own[i], atol=1e-10, rtol=0)
            read = steps[i].input_tokens[row].tolist()
            assert read[len(read) - i :] == list(answer.tokens[:i])
            assert steps[i].probs[row, token] > 0
        total = sum(own[i, token].item() for i, token in enumerate(answer.tokens))
        assert answer.logprob == pytest.approx(total, abs=1e-9)
        assert answer.score == pytest.approx(strategy.score(total, len(answer.rows)), abs=1e-9)


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
    refuse("src contains 13: token ids are whole numbers from 0 to 12", src=SRC + 2)
    refuse("src contains -1", src=SRC - 1)
    refuse(r"src is torch.int64 \(1, 0\): .*not empty", src=SRC[:1, :0])
    refuse(r"src is torch.int64 \(0, 6\)", src=SRC[:0])
    refuse("row 1 of src has no real token", src_valid=VALID & torch.tensor([[1], [0], [1]]).bool())
    refuse("prefix contains 13", prefix=[4, 13])
    refuse("prefix contains eos_id = 2 at 0", prefix=[2, 4])
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
