"""The claims: each experiment runs, its numbers are those of theory or of torch, and it judges."""

import inspect
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest

from explorer.analysis.cases import BY_ID, CLAIMS, VERDICTS, Result, attention, case, training
from explorer.exhibits.cases.case import stored
from explorer.library import LoadedModel
from explorer.runs.passes import Steps, walked
from explorer.runs.trace import trace
from explorer.text import LANGUAGES, t, words

TEXT = "The cat sat on the mat."
# What the numbers say on the tiny translator; None: the clock of this machine decides.
FOUND = {
    "variance": "true", "saturation": None, "one_head": None,
    "mha_count": "depends", "tying_quality": None,
    "rms_speed": None, "fused_speed": None, "quadratic": "depends",
    "causal_order": None, "learned_positions": None,
    "warmup": None, "norm_stabilises": None,
    "original": "false", "gelu_tanh": "true",
}  # fmt: skip


def value(found: Result, row: str, column: str, of: str = "") -> float:
    (only,) = (each for each in found.rows if (each.name, each.of) == (row, of))
    return only.values[found.columns.index(column)]


@pytest.fixture(scope="module")
def find(translator: LoadedModel):
    """find("variance"): the experiment on the tiny translator, run once."""
    traced = trace(translator, TEXT)

    @cache
    def found(name: str) -> Result:
        told: list[tuple[int, int]] = []
        test = BY_ID[name].measure
        brief = {name: BRIEF[name] for name in BRIEF.keys() & inspect.signature(test).parameters}
        steps = replace(BY_ID[name], measure=partial(test, **brief)).steps(translator, traced)
        finding = walked(steps, lambda *step: told.append(step))
        assert told == sorted(told)
        assert len({total for _, total in told}) <= 1
        assert inspect.isgeneratorfunction(test) <= bool(told)
        assert all(0 < done <= total for done, total in told)
        return finding

    return found


def briefly(asked: training.TaskTraining, seed: int) -> Steps[training.TrainingResult]:
    """Two steps of a training, of two layers at most."""
    config = replace(asked.config, n_layers=min(2, asked.config.n_layers))
    return (yield from training.train(replace(asked, config=config, steps=2), seed))


def once(way: Callable[[], object]) -> float:
    start = time.perf_counter()
    way()
    return time.perf_counter() - start


BRIEF: dict[str, Any] = {"learn": briefly, "seconds": once}
"""Experiments that take long, in less time: by the names of their parameters."""


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_every_experiment_judges_and_all_that_it_names_has_words(claim, find):
    found = find(claim.id)
    expected = FOUND[claim.id]
    assert found.verdict == expected if expected else found.verdict in VERDICTS
    assert all(len(row.values) == len(found.columns) for row in found.rows)
    curve = found.curve
    assert stored("axes")[claim.id] == ([curve.x_name, curve.y_name] if curve else [found.bars])
    for lang in LANGUAGES:
        said = words(lang)
        assert {f"cases.rows.{row.name}" for row in found.rows} <= set(said)
        for why in found.why:
            key = why if why in case.SHARED else f"{claim.id}.{why}"
            assert t(f"cases.{key}", lang=lang, **found.numbers)
        names = set(found.columns)
        if found.curve is not None:
            names |= {*found.curve.names} - {row.name for row in found.rows}
            names |= {found.curve.x_name, found.curve.y_name}
            assert found.curve.ys.shape == (len(found.curve.names), len(found.curve.x))
        assert {f"cases.columns.{name}" for name in names} <= set(said)


def near(expected: float, error: float) -> tuple[float, float]:
    return expected - error, expected + error


NUMBERS: list[tuple[str, str, str, str, tuple[float, float]]] = [
    *(("variance", "independent", "variance", str(n), near(n, n / 10)) for n in attention.WIDTHS),
    ("variance", "equal_vectors", "variance", "64", near(128, 13)),
    ("saturation", "random_none", "top", "", near(0.96, 0.02)),
    ("saturation", "random_none", "gradient", "", near(0.055, 0.01)),
    ("saturation", "random_head", "gradient", "", near(0.306, 0.02)),
    ("mha_count", "shared_keys", "counted", "", near(64 * 64 * 2 + 2 * 64 * 16, 0)),
    ("mha_count", "own_attention", "counted", "", near(4 * 24 * 24 + 4 * 24, 0)),
    ("quadratic", "tokens", "by_hand", "1024", (16, 1e9)),  # 4 heads, 1,024 x 1,024 x 4 bytes
    ("quadratic", "tokens", "four_axes", "1024", (0, 4)),
    ("quadratic", "four_times_as_long", "by_hand", "", near(16, 0.5)),
    ("original", "post", "difference", "", (0, 1e-5)),  # the block of the paper
    ("original", "pre", "difference", "", (0.5, 1e9)),
    ("original", "sublayer", "difference", "", (0.5, 1e9)),
    ("gelu_tanh", "largest_difference", "value", "", near(4.7e-4, 1e-5)),
    ("gelu_tanh", "float16_below", "value", "", near(62, 1)),
    ("gelu_tanh", "float16_above", "value", "", (0, 1)),
    ("gelu_tanh", "float16_most", "value", "", (500, 1e9)),
    ("gelu_tanh", "at_x", "value", "", near(2.70, 0.01)),
    ("gelu_tanh", "gelu_minimum_at", "value", "", near(-0.752, 0.001)),
]


@pytest.mark.parametrize(("claim", "row", "column", "of", "ends"), NUMBERS)
def test_numbers_are_those_of_theory_hand_and_paper(find, claim, row, column, of, ends):
    assert ends[0] <= value(find(claim), row, column, of) <= ends[1]
