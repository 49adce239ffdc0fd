"""Claims about time: with clocks that are made to tell, verdicts follow the spread of the tries."""

import itertools
from collections.abc import Callable

import pytest

from explorer.analysis.cases import cost
from explorer.engine.jobs import walked
from tests.explorer.cases.test_claims import value


def taking(*tries: tuple[float, ...]) -> Callable[[object], float]:
    """A stopwatch: what each way takes in the first try, in the second, and again."""
    left = itertools.cycle([seconds for each in tries for seconds in each])
    return lambda function: next(left)


def test_all_ways_take_their_turn_in_every_try() -> None:
    asked: list[str] = []
    told: list[tuple[int, int]] = []

    def seconds(way: Callable[[], object]) -> float:
        asked.append(str(way()))
        return float(len(asked))

    steps = cost.interleaved({"a": lambda: "a", "b": lambda: "b"}, seconds)
    times = walked(steps, lambda *step: told.append(step))
    assert asked == ["a", "b"] * cost.TIMED
    assert times["b"].tolist() == [2000 * (turn + 1) for turn in range(cost.TIMED)]
    assert told[-1] == (cost.TIMED, cost.TIMED)


# LayerNorm written out, LayerNorm of torch, RMSNorm written out, RMSNorm of torch.
@pytest.mark.parametrize(
    ("tries", "verdict"),
    [
        ([(1.15, 1.12, 1.0, 1.0)], "true"),
        ([(1.15, 1.12, 1.0, 1.0), (0.99, 1.12, 1.0, 1.0)], "depends"),  # one try overlaps
        ([(3.0, 0.5, 1.0, 2.0)], "depends"),
        ([(3.0, 3.0, 1.0, 1.0)], "depends"),  # faster, and not by what is said
        ([(0.9, 0.5, 1.0, 2.0)], "false"),
        ([(0.9, 0.5, 1.0, 2.0), (1.2, 0.5, 1.0, 2.0)], "depends"),
    ],
)
def test_rms_norm_is_faster_where_every_try_says_so(find, tries, verdict) -> None:
    found = find(cost.rms_speed, taking(*tries))
    assert found.verdict == verdict
    if len(tries) == 1:
        assert value(found, "layer_norm_written", "milliseconds") == 1000 * tries[0][0]
        assert value(found, "layer_norm_written", "timed_range") == 0


def at_lengths(*ratios: tuple[float, float]) -> Callable[[object], float]:
    """At each of four lengths: written out takes so many times as long as each of two calls."""
    return taking(
        *((1.0, 1 / four, 1 / three) for four, three in ratios for _ in range(cost.TIMED))
    )


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([(1.5, 1.5), (2, 2), (3, 3), (4, 4)], "true"),
        ([(5, 5), (2, 2), (3, 3), (4, 4)], "depends"),  # gains least where texts are long
        ([(1, 1), (2, 1), (3, 1), (4, 1)], "depends"),
        ([(9, 9), (9, 9), (1, 1), (1, 1)], "false"),
    ],
)
def test_the_operator_is_faster_where_every_try_says_so(find, ratios, verdict) -> None:
    found = find(cost.fused_speed, at_lengths(*ratios))
    assert found.verdict == verdict
    assert value(found, "tokens", "gain_four", "1024") == pytest.approx(ratios[3][0])
    assert ("axes" in found.why) == (ratios[3][0] > ratios[3][1])


def test_one_slow_try_of_the_operator_is_an_overlap(find) -> None:
    slow = [(1.0, 0.5, 0.5)] * (cost.TIMED - 1) + [(1.0, 1.0, 1.0)]
    found = find(cost.fused_speed, taking(*slow))
    assert found.verdict == "false"
    assert value(found, "tokens", "gain_four_range", "1024") == pytest.approx(1)


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [((1.5, 1.5, 1.5), "true"), ((1.5, 1.0, 1.0), "depends"), ((1.0, 1.0, 0.8), "false")],
)
def test_one_matrix_is_faster_where_every_try_says_so(find, ratios, verdict) -> None:
    times = taking(*((ratio, 1.0) for ratio in ratios for _ in range(cost.TIMED)))
    assert find(cost.fused_qkv, times).verdict == verdict
