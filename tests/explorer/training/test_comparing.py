"""Trainings beside each other: what sets them apart, and whether seeds alone could."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from explorer.training.comparing import arms, band, difference
from explorer.training.questions import QUESTIONS
from explorer.training.runs import TrainingRun, Validation
from explorer.training.setup import Setup, check


def run(setup: Setup, *losses: float, state: str = "done") -> TrainingRun:
    found = TrainingRun(1, setup, Path(), state)  # type: ignore[arg-type]
    found.scores = [Validation(50 * at, loss, 0.5, 0.5, 0.0, "") for at, loss in enumerate(losses)]
    return found


BASE = Setup()
OTHER = replace(BASE, n_heads=2)


def test_arms_differ_by_what_was_set_and_hold_the_seeds() -> None:
    found = arms([run(BASE, 1.0), run(OTHER, 1.0), run(replace(BASE, seed=2), 2.0)])
    assert [len(arm.runs) for arm in found] == [2, 1]
    assert [arm.differs for arm in found] == [(("n_heads", 4),), (("n_heads", 2),)]


def test_a_fault_on_the_way_makes_an_arm_of_its_own() -> None:
    faulty = run(BASE, 1.0)
    faulty.faults = [(30, "no_causal", True)]
    assert [arm.faults for arm in arms([run(BASE, 1.0), faulty])] == [(), ((30, "no_causal"),)]


def test_a_band_spans_its_seeds_where_all_were_measured() -> None:
    found = band(arms([run(BASE, 4.0, 2.0, 1.0), run(replace(BASE, seed=2), 4.0, 3.0)])[0], "loss")
    assert found.steps.tolist() == [0, 50]
    np.testing.assert_allclose([found.mean, found.low, found.high], [[4, 2.5], [4, 2], [4, 3]])


def test_a_difference_smaller_than_the_band_says_so() -> None:
    def of(*last: float) -> list[TrainingRun]:
        return [run(replace(BASE, seed=at), 4.0, loss) for at, loss in enumerate(last, start=1)]

    def outcome(first: list[TrainingRun], second: list[TrainingRun], measure: str = "loss") -> str:
        one, other = (band(arms(each)[0], measure) for each in (first, second))  # type: ignore[arg-type]
        return difference(one, other, measure).outcome  # type: ignore[arg-type]

    assert outcome(of(1.0, 1.2), of(1.1, 1.3)) == "band"
    assert outcome(of(1.0, 1.2), of(1.3, 1.4)) == "first"  # the lower loss
    assert outcome(of(1.3, 1.4), of(1.0, 1.2)) == "second"
    assert outcome(of(1.0), of(2.0, 2.1)) == "one_seed"
    assert difference(band(arms(of(1.0))[0], "beyond"), band(arms(of(1.0))[0], "loss"), "loss") == (
        difference(band(arms(of(1.0))[0], "beyond"), band(arms(of(1.0))[0], "beyond"), "loss")
    )


def test_a_question_is_answered_once_all_its_trainings_are_done() -> None:
    question = QUESTIONS[0]
    runs = [run(setup, 4.0, 1.0 + setup.warmup / 1000) for setup in question.setups()]
    assert question.answer(runs[:-1]) is None
    answer = question.answer(runs)
    assert answer is not None
    assert answer.outcome == "second"  # less warm-up gave the lower loss here
    runs[0].state = "running"
    assert question.answer(runs) is None


def test_every_question_compares_models_that_can_be_trained() -> None:
    for question in QUESTIONS:
        assert question.first != question.second
        for setup in question.setups():
            assert check(setup, 45) > 0
    swiglu = next(each for each in QUESTIONS if each.id == "swiglu")
    ours, theirs = check(swiglu.first, 45), check(swiglu.second, 45)
    assert abs(ours - theirs) / ours < 0.01  # at equal parameters, as it says
