"""Greedy and sampling on models whose logits are a fixed table: every answer is known by hand."""

import itertools
import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings, strategies as st
from jaxtyping import TypeCheckError
from tables import Chain, chain, chosen, finished, only, random_chain

from models.decoding import best, decode
from models.strategies import Beam, Greedy, Sample, largest

EOS, A, B, C = 2, 3, 4, 5
START = torch.tensor([[1]])


def test_greedy_takes_the_best_token_and_stops_at_eos():
    model = chain(_1={A: 0.6, B: 0.4}, _3={C: 0.5, EOS: 0.3, A: 0.2}, _5={EOS: 0.9, A: 0.1})
    steps = list(decode(model, START, Greedy(), 8))
    assert [chosen(step) for step in steps] == [[A], [C], [EOS]]
    assert [step.index for step in steps] == [0, 1, 2]
    assert [finished(step) for step in steps] == [[False], [False], [True]]
    assert [step.forced for step in steps] == [False] * 3
    assert [step.input_tokens.tolist() for step in steps] == [[[1]], [[1, A]], [[1, A, C]]]
    assert steps[1].log_probs[0, C].item() == pytest.approx(math.log(0.5), abs=1e-6)
    assert steps[1].probs.tolist() == [[0, 0, 0, 0, 0, 1]]
    answer = steps[-1].best[0]
    assert (answer.tokens, answer.finished) == ((A, C, EOS), True)
    assert answer.logprob == answer.score == pytest.approx(math.log(0.6 * 0.5 * 0.9), abs=1e-6)


@pytest.mark.parametrize("strategy", [Greedy(), Sample(), Beam(1)])
@pytest.mark.parametrize("use_cache", [True, False])
def test_one_forward_a_step_over_the_new_token_only_when_cached(strategy, use_cache):
    model = chain(_1={A: 1}, _3={B: 1}, _4={EOS: 1})
    assert only(model, strategy, use_cache=use_cache).tokens == (A, B, EOS)
    assert model.forwards == ([(1, 1)] * 3 if use_cache else [(1, 1), (1, 2), (1, 3)])


def test_the_limit_ends_an_output_that_never_says_eos():
    model = chain(_1={A: 1}, _3={A: 1})
    assert best(decode(model, START, Beam(), 0)) == ()
    assert model.forwards == []
    for strategy in (Greedy(), Sample(), Beam(2)):
        answer = only(model, strategy, 5)
        assert (answer.tokens, answer.finished, answer.logprob) == ((A,) * 5, False, 0.0)


def test_finished_sentences_leave_the_batch_and_keep_their_answers():
    model = chain(_1={EOS: 1}, _3={B: 1}, _4={C: 1}, _5={EOS: 1})
    steps = list(decode(model, torch.tensor([[3], [1], [4]]), Greedy(), 8))
    assert [step.sentences for step in steps] == [(0, 1, 2), (0, 2), (0,)]
    assert [chosen(step) for step in steps] == [[B, EOS, C], [C, 0, EOS], [EOS, 0, 0]]
    assert [finished(step) for step in steps] == [
        [False, True, False],
        [False, True, True],
        [True, True, True],
    ]
    assert [h.tokens for h in steps[-1].best] == [(B, C, EOS), (EOS,), (C, EOS)]
    assert model.forwards == [(3, 1), (2, 1), (1, 1)]


def test_logits_without_probabilities_are_named():
    model = Chain(torch.full((6, 6), math.nan))
    with pytest.raises(ValueError, match=r"step 0: the model's logits .*NaN"):
        next(decode(model, START, Greedy(), 4))


def cut(probs: list[float], **options: float) -> list[float]:
    """What `Sample` leaves of a distribution."""
    return Sample(**options).probs(torch.tensor([probs]).log())[0].tolist()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.1, 0.4, 0.2, 0.3]),
        ({"top_k": 0}, [0.1, 0.4, 0.2, 0.3]),
        ({"top_k": 1}, [0, 1, 0, 0]),
        ({"top_k": 2}, [0, 4 / 7, 0, 3 / 7]),
        ({"top_k": 4}, [0.1, 0.4, 0.2, 0.3]),
        ({"top_k": 99}, [0.1, 0.4, 0.2, 0.3]),
        ({"top_p": 0}, [0, 1, 0, 0]),
        ({"top_p": 0.39}, [0, 1, 0, 0]),
        ({"top_p": 0.41}, [0, 4 / 7, 0, 3 / 7]),
        ({"top_p": 0.71}, [0, 4 / 9, 2 / 9, 3 / 9]),
        ({"top_p": 0.91}, [0.1, 0.4, 0.2, 0.3]),
        ({"top_p": 1}, [0.1, 0.4, 0.2, 0.3]),
        # Top-p counts what top-k left: 4/9 + 3/9 reach 0.75 (of the whole only 0.7).
        ({"top_k": 3, "top_p": 0.75}, [0, 4 / 7, 0, 3 / 7]),
        # Squares, then the same: 16 / 30 is more than half.
        ({"temperature": 0.5}, [1 / 30, 16 / 30, 4 / 30, 9 / 30]),
        ({"temperature": 0.5, "top_p": 0.5}, [0, 1, 0, 0]),
        ({"temperature": 0}, [0, 1, 0, 0]),
        ({"temperature": 5e-324}, [0, 1, 0, 0]),
        ({"temperature": 1e300}, [0.25, 0.25, 0.25, 0.25]),
        ({"temperature": 10**300}, [0.25, 0.25, 0.25, 0.25]),
    ],
)
def test_cuts_worked_by_hand(options, expected):
    left = cut([0.1, 0.4, 0.2, 0.3], **options)
    assert left == pytest.approx(expected, abs=1e-6)
    assert [p == 0 for p in left] == [p == 0 for p in expected]  # cut means exactly 0


def test_the_draws_along_one_output_are_independent():
    probs = {A: 0.5, B: 0.5}
    model = chain(_1=probs, _3=probs, _4=probs)
    tokens = only(model, Sample(seed=1), 600).tokens
    pairs = Counter(itertools.pairwise(tokens))
    assert len(pairs) == 4
    assert all(100 < n < 200 for n in pairs.values())  # 150 expected, deviation about 11


def test_a_seed_decides_the_sample_and_the_global_generator_nothing():
    model = random_chain(0, n_vocab=40)
    state = torch.random.get_rng_state()
    first = only(model, Sample(seed=5), 12).tokens
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(123)
    assert only(model, Sample(seed=5), 12).tokens == first
    others = {only(model, Sample(seed=seed), 12).tokens for seed in (6, 7, 8, 2**32 - 1)}
    assert len(others | {first}) == 5


def test_sentence_i_of_a_batch_draws_what_it_would_alone_with_seed_plus_i():
    model = random_chain(1, n_vocab=20)
    prompts = torch.tensor([[1], [7], [1], [9]])
    together = best(decode(model, prompts, Sample(seed=40), 9))
    for i, answer in enumerate(together):
        alone = best(decode(model, prompts[i : i + 1], Sample(seed=40 + i), 9))[0]
        assert answer.tokens == alone.tokens


def test_forcing_what_was_drawn_changes_nothing_after_it():
    model = random_chain(2, n_vocab=20)
    drawn = only(model, Sample(seed=3), 10)
    for n in range(1, len(drawn.tokens)):
        assert only(model, Sample(seed=3), 10, prefix=drawn.tokens[:n]).tokens == drawn.tokens


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), penalty=st.floats(0, 3))
def test_temperature_0_top_k_1_top_p_0_and_beam_width_1_are_greedy(seed, penalty):
    model = random_chain(seed)
    greedy = only(model, Greedy())
    for strategy in (
        Sample(temperature=0, seed=seed, top_k=3),
        Sample(top_k=1, seed=seed),
        Sample(top_p=0, seed=seed, temperature=2),
        Beam(width=1, length_penalty=penalty),
    ):
        answer = only(model, strategy)
        assert (answer.tokens, answer.finished) == (greedy.tokens, greedy.finished)
        assert answer.logprob == pytest.approx(greedy.logprob)


def test_largest_takes_the_first_of_equals_and_never_minus_infinity():
    values = torch.tensor([1.0, 3.0, -math.inf, 3.0, 1.0, 3.0])
    assert largest(values, 1) == [(1, 3.0)]
    assert largest(values, 2) == [(1, 3.0), (3, 3.0)]
    assert largest(values, 4) == [(1, 3.0), (3, 3.0), (5, 3.0), (0, 1.0)]
    assert largest(values, 99) == [(1, 3.0), (3, 3.0), (5, 3.0), (0, 1.0), (4, 1.0)]
    assert largest(values, 0) == []
    assert largest(torch.zeros(5000), 3) == [(0, 0.0), (1, 0.0), (2, 0.0)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Beam(width=0), "width is 0"),
        (lambda: Beam(width=True), "width is True"),
        (lambda: Beam(length_penalty=-0.1), r"length_penalty is -0\.1.*at least 0"),
        (lambda: Beam(length_penalty=math.inf), "length_penalty is inf"),
        (lambda: Sample(temperature=-1), "temperature is -1"),
        (lambda: Sample(temperature=math.nan), "temperature is nan: it must be a finite number"),
        (lambda: Sample(top_k=-1), "top_k is -1"),
        (lambda: Sample(top_p=-0.01), r"top_p is -0\.01.*from 0 to 1"),
        (lambda: Sample(top_p=1.01), r"top_p is 1\.01"),
        (lambda: Sample(top_p=math.nan), "top_p is nan"),
        (lambda: Sample(seed=-1), "seed is -1"),
        (lambda: Sample(seed=2**32), r"seed is 4294967296: it must be below 2\*\*32"),
        # Run-time type checks, where they are on, refuse these first, and name both as well.
        (lambda: Beam(width=2.0), r"(?s)width.*2\.0"),
        (lambda: Sample(temperature="hot"), "(?s)temperature.*hot"),
        (lambda: Sample(top_k=1.5), r"(?s)top_k.*1\.5"),
    ],
)
def test_impossible_values_are_refused_by_name(make, message):
    with pytest.raises((ValueError, TypeCheckError), match=message):
        make()


# Beam search: every clause of the rule in `Beam`'s docstring, on fixed tables of logits.
def test_the_length_penalty_by_hand():
    # eos at once: ln 0.3 over 1 token; A A eos: ln(0.7 * 0.6 * 0.5 = 0.21) over 3.
    model = chain(_1={A: 0.7, EOS: 0.3}, _3={B: 0.6, C: 0.4}, _4={EOS: 0.5, C: 0.5}, _5={C: 1})
    answers = {p: only(model, Beam(9, p), 3) for p in (0, 0.2, 0.3, 1)}
    assert answers[0].tokens == answers[0.2].tokens == (EOS,)  # 3**0.2 = 1.246
    assert answers[0.3].tokens == answers[1].tokens == (A, B, EOS)  # 3**0.3 = 1.390
    assert answers[0].score == pytest.approx(math.log(0.3), abs=1e-6)
    assert answers[1].score == pytest.approx(math.log(0.21) / 3, abs=1e-6)
    assert answers[0.3].score == pytest.approx(math.log(0.21) / 3**0.3, abs=1e-6)
    # The two are equal where ln 0.21 / ln 0.3 = 1.2962 = 3**p: p = 0.2362.
    assert only(model, Beam(9, 0.235), 3).tokens == (EOS,)
    assert only(model, Beam(9, 0.237), 3).tokens == (A, B, EOS)
    assert Beam(length_penalty=1e308).score(-3.0, 2) == 0  # and no overflow


def reference_beam(model, width: int, penalty: float, limit: int) -> list[tuple[int, ...]]:
    """The rule once more, with plain lists: the finished outputs by score, else the live ones."""
    table = model.table.log_softmax(-1).tolist()
    live, ended = [((), 0.0)], []
    for _ in range(limit):
        extended = [
            ((*tokens, token), total + gain)
            for tokens, total in live
            for token, gain in enumerate(table[tokens[-1] if tokens else 1])
        ]
        survivors = sorted(extended, key=lambda e: -e[1])[: width - len(ended)]
        live = [e for e in survivors if e[0][-1] != EOS]
        ended += [e for e in survivors if e[0][-1] == EOS]
    ranked = sorted(ended, key=lambda e: -e[1] / len(e[0]) ** penalty) or live
    return [tokens for tokens, _ in ranked]


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    width=st.integers(1, 12),
    penalty=st.sampled_from([0, 0.6, 1, 2]),
    limit=st.integers(1, 6),
)
def test_beam_follows_its_rule(seed, width, penalty, limit):
    model = random_chain(seed)
    *_, last = decode(model, START, Beam(width, penalty), limit)
    found = [h.tokens for h in last.ended[0] or last.live[0]]
    assert found == reference_beam(model, width, penalty, limit)


def test_a_forced_token_of_probability_0_does_not_stop_a_beam():
    model = chain(_1={A: 1}, _4={C: 0.6, A: 0.4}, _5={C: 1}, _3={A: 1})
    steps = list(decode(model, START, Beam(2), 2, prefix=[B]))
    assert [h.tokens for h in steps[-1].live[0]] == [(B, C), (B, A)]
    assert steps[-1].best[0].logprob == -math.inf
