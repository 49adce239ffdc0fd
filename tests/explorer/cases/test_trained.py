"""Claims that train small models: each is fed worlds in which it is true, is false, and depends."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from explorer.analysis.cases import compared, training
from explorer.analysis.cases.training import TaskTraining, TrainingResult
from explorer.runs.passes import Steps, walked
from models.config import ModelConfig
from models.norms import LayerNorm
from models.rows import Rows
from tests.explorer.cases.test_claims import value

GUESSING = math.log(training.SYMBOLS)
Says = Callable[[TaskTraining, int], float]


def trained(result: TrainingResult) -> Steps[TrainingResult]:
    yield 1, 1
    return result


def losing(loss: Says) -> training.Learn:
    """A world in which every step of a training has this loss."""
    return lambda asked, seed: trained(TrainingResult((loss(asked, seed),) * 12, 0.5))


def right(share: Says) -> training.Learn:
    """A world in which this share is right after a training."""
    return lambda asked, seed: trained(TrainingResult((1.0,) * 12, share(asked, seed)))


@pytest.mark.parametrize(
    ("fails", "verdict"),
    [
        ({("post", 5e-3, 0), ("post", 5e-4, 0)}, "true"),
        ({("post", 5e-3, 0)}, "depends"),
        ({("post", 5e-3, 0), ("post", 5e-3, compared.WARM)}, "depends"),
        (set(), "false"),
        ({("post", 5e-3, 0), ("pre", 5e-3, 0)}, "false"),
    ],
)
def test_warm_up_is_needed_where_nothing_else_lets_post_norm_learn(find, fails, verdict):
    def loss(asked: TaskTraining, seed: int) -> float:
        arm = asked.config.norm_placement, asked.rate, asked.warm
        return GUESSING if arm in fails else 2.0 + seed / 100

    found = find(compared.warmup, losing(loss))
    assert found.verdict == verdict
    if verdict == "false" and not fails:
        assert value(found, "post_plain", "range") == pytest.approx(0.02)


def test_one_failing_seed_is_a_failure(find):
    def loss(asked: TaskTraining, seed: int) -> float:
        return GUESSING if asked.config.norm_placement == "pre" and seed == 2 else 2.0

    found = find(compared.warmup, losing(loss))
    assert found.verdict == "false"
    assert value(found, "pre_plain", "seeds_learned") == 2


def test_a_small_model_learns_its_task_warms_up_and_repeats_by_its_seed():
    told: list[tuple[int, int]] = []
    asked = TaskTraining(training.symbol_config(n_ctx=12), training.same, 40, 1e-2)
    learned = walked(training.train(asked, 0), lambda *step: told.append(step))
    assert learned.losses[-1] < learned.losses[0] / 2
    assert learned.right > 0.9
    assert told[-1] == (40, 40)
    assert len(told) == len(learned.losses) == 40
    cold, warm = (walked(training.train(replace(asked, steps=3, warm=n), 0)) for n in (0, 1000))
    assert cold.losses[0] == warm.losses[0]
    assert cold.losses[2] < warm.losses[2] - 0.05  # a thousandth of the rate moves nothing yet
    asked = TaskTraining(training.symbol_config(), training.same, 2, 1e-2)
    first, again, other = (walked(training.train(asked, seed)) for seed in (0, 0, 1))
    assert first == again
    assert first.losses != other.losses


def test_a_model_without_norms_has_none_and_still_runs():
    config = training.symbol_config(n_layers=2, **training.PRE)
    bare, normed = (training.fresh_model(config, 0, each) for each in (False, True))
    kinds = [type(module).__name__ for module in bare.modules()]
    assert "LayerNorm" not in kinds
    assert bare.read(Rows(torch.zeros(2, 12, dtype=torch.long))).shape == (2, 12, 10)
    assert sum(isinstance(module, LayerNorm) for module in normed.modules()) == 5


def test_several_trainings_have_every_seed_and_one_progress():
    told: list[tuple[int, int]] = []

    def learn(asked: TaskTraining, seed: int) -> Steps[TrainingResult]:
        return trained(TrainingResult((asked.rate,), seed))

    asked = TaskTraining(training.symbol_config(), training.same, 1, 0.5)
    arms = {"one": asked, "other": replace(asked, rate=0.1)}
    found = walked(training.several(arms, learn), lambda *step: told.append(step))
    assert found["other"].right.tolist() == list(training.SEEDS)
    assert told == [(part, 6) for part in range(1, 7)]


@pytest.mark.parametrize(
    ("better", "verdict"),
    [
        ({training.larger_neighbour, training.both_neighbours}, "true"),
        ({training.both_neighbours}, "depends"),
        (set(), "false"),
    ],
)
def test_several_heads_are_better_where_every_seed_says_so(find, better, verdict):
    def share(asked: TaskTraining, seed: int) -> float:
        gains = asked.config.n_heads > 1 and asked.task in better
        return 0.6 + seed / 100 + (0.3 if gains else 0)

    found = find(compared.one_head, right(share))
    assert found.verdict == verdict
    assert value(found, "both_neighbour", "range", "4") == pytest.approx(0.02)


def test_the_tasks_ask_what_they_say():
    rows = torch.tensor([[3, 1, 2, 1]])
    assert training.larger_neighbour(rows).tolist() == [[-100, 3, 1, -100]]
    assert training.both_neighbours(rows).tolist() == [[-100, 32, 11, -100]]
    assert training.two_back(rows).tolist() == [[-100, -100, 3, 1]]
    assert training.next_symbol(torch.tensor([[0, 9]])).tolist() == [[1, 0]]
    places = torch.arange(training.LENGTH)
    assert training.shuffled(places[None]).tolist() == [list(training.SHUFFLED)]
    assert sorted(training.SHUFFLED) == places.tolist()


def test_a_share_that_still_grows_is_said_to_depend_on_the_steps(find):
    """After 200 steps the mask alone is far from positions; it is not what 800 would give."""

    def share(asked: TaskTraining, seed: int) -> float:
        if asked.config.positions != "none":
            return 1.0
        if not asked.config.is_causal:
            return 0.25
        return 0.35 if asked.steps == compared.STEPS else longer[seed]

    longer = (0.47, 0.49, 0.5)
    found = find(compared.causal_order, right(share))
    assert (found.verdict, found.why) == ("depends", ("why",))
    assert (found.numbers["steps"], found.numbers["more"]) == (200, 800)
    assert value(found, "mask_longer", "right") == pytest.approx(sum(longer) / 3)
    longer = (0.34, 0.49, 0.5)  # not with every seed
    found = find(compared.causal_order, right(share))
    assert (found.verdict, found.why) == ("depends", ("seeds", "why"))


@pytest.mark.parametrize(
    ("neither", "mask", "both", "verdict"),
    [
        ((0.1,) * 3, (0.95,) * 3, (1.0,) * 3, "true"),
        ((0.1,) * 3, (0.7,) * 3, (1.0,) * 3, "depends"),
        ((0.1,) * 3, (0.3,) * 3, (1.0,) * 3, "false"),
        ((0.1,) * 3, (0.95, 0.95, 0.85), (1.0,) * 3, "depends"),  # one seed is not as good
        ((0.1,) * 3, (0.3, 0.3, 0.6), (1.0,) * 3, "depends"),  # one seed is better than half
        ((0.1, 0.1, 0.9), (0.95,) * 3, (1.0, 1.0, 0.8), "depends"),  # positions help not every seed
        ((0.1,) * 3, (0.1,) * 3, (0.1,) * 3, "depends"),  # nobody learned anything
    ],
)
def test_the_mask_tells_order_as_every_seed_says(find, neither, mask, both, verdict):
    def share(asked: TaskTraining, seed: int) -> float:
        with_positions = asked.config.positions != "none"
        return (both if with_positions else mask if asked.config.is_causal else neither)[seed]

    found = find(compared.causal_order, right(share))
    assert found.verdict == verdict
    if len(set(mask)) == 1 and both[0] == both[2] > 0.1:
        assert found.why == ("why",)


@pytest.mark.parametrize(
    ("fails", "verdict"),
    [
        ({("bare", "high")}, "true"),
        ({("bare", "high"), ("post", "high")}, "depends"),
        ({("bare", "high"), ("pre", "low")}, "depends"),
        (set(), "false"),
        ({("bare", "high"), ("post", "high"), ("pre", "high")}, "false"),
    ],
)
def test_a_norm_stabilises_where_it_learns_and_nothing_else_does(find, fails, verdict):
    def loss(asked: TaskTraining, seed: int) -> float:
        design = asked.config.norm_placement if asked.normed else "bare"
        (rate,) = (name for name, rate in compared.RATES.items() if rate == asked.rate)
        return GUESSING if (design, rate) in fails else 1.0

    found = find(compared.norm_stabilises, losing(loss))
    assert found.verdict == verdict
    assert found.why == ("why",)
    assert value(found, "bare_high", "seeds_learned") == (0 if ("bare", "high") in fails else 3)


def cold(asked: TaskTraining, seed: int) -> float:
    """Post-norm without warm-up fails with all seeds but one."""
    fails = asked.config.norm_placement == "post" and not asked.warm and seed
    return GUESSING if fails else 1.0


def moved(start: float, by: float, field: str, value: Any) -> Callable[..., Says]:
    """moved(…)(task, …): by so much more where a design has this value, in these tasks."""
    return lambda *tasks: (
        lambda asked, seed: (
            start + seed / 50 + by * (getattr(asked.config, field) == value and asked.task in tasks)
        )
    )


tied = moved(1, 0.2, "tie_embeddings", True)
placed = moved(0.5, 0.3, "positions", "learned")


def overlapping(worse: Callable[[ModelConfig], bool]) -> Says:
    """Worse on average, by one seed alone."""
    return lambda asked, seed: 3.0 if worse(asked.config) and seed == 0 else 1.0 + 0.1 * seed


SAME, NEXT, BACK = training.same, training.next_symbol, training.two_back
MIXED = training.shuffled
BARE = losing(lambda of, seed: 1.0 if of.normed or of.rate < 1e-2 or not seed else GUESSING)
ONE_HEAD = right(lambda of, seed: 0.9 if of.config.n_heads > 1 or seed == 0 else 0.5)
ONE_PLACED = right(lambda of, seed: 0.9 if of.config.positions == "learned" and seed else 0.5)


@pytest.mark.parametrize(
    ("test", "learn", "verdict"),
    [
        (compared.warmup, losing(cold), "depends"),
        (compared.tying_quality, losing(tied()), "true"),
        (compared.tying_quality, losing(tied(SAME)), "depends"),
        (compared.tying_quality, losing(tied(NEXT)), "depends"),
        (compared.tying_quality, losing(tied(SAME, NEXT)), "false"),
        (compared.learned_positions, right(placed(BACK, MIXED)), "true"),
        (compared.learned_positions, right(placed(MIXED)), "depends"),
        (compared.learned_positions, right(placed()), "false"),
    ],
)
def test_the_verdict_is_what_every_seed_says(find, test, learn, verdict):
    result = find(test, learn)
    assert result.verdict == verdict


@pytest.mark.parametrize(
    ("test", "learn"),
    [
        (compared.one_head, ONE_HEAD),
        (compared.norm_stabilises, BARE),
        (compared.tying_quality, losing(overlapping(lambda config: config.tie_embeddings))),
        (compared.learned_positions, ONE_PLACED),
    ],
)
def test_a_single_seed_is_no_proof(find, test, learn):
    result = find(test, learn)
    assert (result.verdict, result.why[0]) == ("depends", "seeds")
