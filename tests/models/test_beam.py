"""Beam search: every clause of the rule in `Beam`'s docstring, on fixed tables of logits."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings, strategies as st
from tables import chain, chosen, finished, only, random_chain

from models.decoding import decode
from models.strategies import Beam

EOS, A, B, C = 2, 3, 4, 5
START = torch.tensor([[1]])


def fallen(beam, step, parents):
    """What did not survive a step, best first, of all extensions of `parents` (logprobs)."""
    survived = len(step.live[0]) + sum(len(h.tokens) == step.index + 1 for h in step.ended[0])
    return beam.choose(step.log_probs, step.probs, parents, 99, 0.0)[survived:]


def test_a_beam_by_hand():
    model = chain(
        _1={A: 0.5, B: 0.4, EOS: 0.1}, _3={C: 0.4, EOS: 0.35, B: 0.25}, _4={C: 0.9, EOS: 0.1}
    )
    beam = Beam(width=2, length_penalty=0)
    steps = list(decode(model, START, beam, 5))
    first, second, third = steps
    assert [chosen(step) for step in steps] == [[A], [C], [EOS]]  # of the best extension
    assert [(h.tokens, h.rows[-1]) for h in first.live[0]] == [((A,), 0), ((B,), 0)]
    assert fallen(beam, first, [0.0]) == [(0, EOS)]  # 0.1, third of two places
    # B C 0.36 before A C 0.2; A eos 0.175 and A B 0.125 fall. The order turns round.
    assert [(h.tokens, h.rows[-1]) for h in second.live[0]] == [((B, C), 1), ((A, C), 0)]
    # and B eos 0.04 behind them
    assert fallen(beam, second, [h.logprob for h in first.live[0]]) == [(0, EOS), (0, B), (1, EOS)]
    assert second.log_probs.shape == (2, 6)
    assert second.input_tokens.tolist() == [[1, A], [1, B]]
    assert third.input_tokens.tolist() == [[1, B, C], [1, A, C]]
    assert third.live == ((),)
    assert finished(third) == [True]
    assert [h.tokens for h in third.ended[0]] == [(B, C, EOS), (A, C, EOS)]
    answer = third.best[0]
    assert answer.logprob == answer.score == pytest.approx(math.log(0.36), abs=1e-6)
    assert answer.rows == (0, 1, 0)
    assert third.ended[0][1].rows == (0, 0, 1)


def test_a_finished_hypothesis_keeps_its_place_and_narrows_the_beam():
    model = chain(_1={EOS: 0.5, A: 0.3, B: 0.2}, _3={A: 0.5, B: 0.5}, _4={A: 0.5, B: 0.5})
    steps = list(decode(model, START, Beam(width=2), 3))
    assert [len(step.live[0]) for step in steps] == [1, 1, 1]
    assert [h.tokens for h in steps[0].ended[0]] == [(EOS,)]
    assert steps[-1].best[0].tokens == (EOS,)
    assert finished(steps[-1]) == [False]  # the limit came first


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


@pytest.mark.parametrize("penalty", [0, 1, 2.5])
def test_a_wide_beam_searches_everything(penalty):
    model, limit = random_chain(11, n_vocab=4), 5
    table = model.table.log_softmax(-1)
    outputs = {}
    for length in range(1, limit + 1):
        for body in itertools.product([0, 1, 3], repeat=length - 1):
            tokens = (*body, EOS)
            logprob = sum(table[a, b].item() for a, b in itertools.pairwise((1, *tokens)))
            outputs[tokens] = logprob / length**penalty
    beam = Beam(4**limit, penalty)
    *_, before, last = decode(model, START, beam, limit)
    assert {h.tokens for h in last.ended[0]} == set(outputs)
    scores = [h.score for h in last.ended[0]]
    assert scores == pytest.approx(sorted(outputs.values(), reverse=True), abs=1e-5)
    assert last.best[0].tokens == max(outputs, key=outputs.__getitem__)
    assert not fallen(beam, last, [h.logprob for h in before.live[0]])


def test_a_forced_token_of_probability_0_does_not_stop_a_beam():
    model = chain(_1={A: 1}, _4={C: 0.6, A: 0.4}, _5={C: 1}, _3={A: 1})
    steps = list(decode(model, START, Beam(2), 2, prefix=[B]))
    assert [h.tokens for h in steps[-1].live[0]] == [(B, C), (B, A)]
    assert steps[-1].best[0].logprob == -math.inf
