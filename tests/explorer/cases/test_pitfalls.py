"""All common bugs: what each card has, and its code."""

import ast
import math
from pathlib import Path

import pytest
import torch
from faults import BY_ID

from explorer.analysis.cases import BUGS, CLAIMS, Case
from explorer.analysis.cases.case import source_of
from explorer.analysis.cases.fixed import fixed_scores
from explorer.library import LoadedModel
from explorer.numerics import masked_softmax
from explorer.runs.trace import trace
from models.attention import attend

ROOT = Path(__file__).resolve().parents[3]


def test_ids_are_unique_and_the_list_is_whole() -> None:
    assert (len(BUGS), len(CLAIMS), len(BY_ID)) == (34, 32, 66)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_wrong_and_right_differ_in_the_figures_shown(bug: Case) -> None:
    shown = bug.compared()
    wrong, right = shown.ways
    assert not right.own
    assert any(row.values[0] != row.values[1] for row in shown.rows)  # NaN differs from everything
    assert all(math.isfinite(row.values[1]) for row in shown.rows)
    if wrong.picture is not None and right.picture is not None:
        assert wrong.picture.shape == right.picture.shape
        assert right.picture.isfinite().all()
        assert not torch.equal(wrong.picture, right.picture)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_the_code_shown_is_a_few_lines_that_run(bug: Case) -> None:
    for source in (source_of(bug.variant), source_of(bug.plain)):
        (function,) = ast.parse(source).body
        assert isinstance(function, ast.FunctionDef)
        assert ast.get_docstring(function) is None  # the page says it in the reader's language
        assert len(source.splitlines()) <= 11
    assert bug.variant.__doc__
    assert bug.plain.__doc__
    assert source_of(bug.variant) != source_of(bug.plain)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
@pytest.mark.parametrize("kind", ["translator", "writer"])
def test_a_demonstration_takes_the_sentence_of_the_reader(
    bug: Case, kind: str, request: pytest.FixtureRequest
) -> None:
    loaded: LoadedModel = request.getfixturevalue(kind)
    traced = trace(loaded, "The cat sat.", "猫坐", pads=2)
    shown = bug.compared(traced)
    assert shown.rows
    assert all(math.isfinite(row.values[1]) for row in shown.rows)
    way = shown.ways[1]
    if way.own and way.picture is not None and way.picture.ndim == 3:
        assert way.picture.shape[-1] in (len(traced.src_tokens), len(traced.tgt_tokens))
    assert bug.compared(traced).ways[1].own == way.own  # and the Trace is as it was


def test_the_wrong_code_is_imported_by_nothing_but_the_pages_that_show_it() -> None:
    # `certify` names the line that shows a fault; an exercise injects a learner's mask as a bug is
    # injected; the calculator shows claims about sizes.
    importers = [
        path.relative_to(ROOT).as_posix()
        for folder in ("models", "explorer")
        for path in (ROOT / folder).rglob("*.py")
        if path.parent != ROOT / "explorer/analysis/cases"
        and "analysis.cases" in path.read_text(encoding="utf-8")
    ]
    showing = {
        "explorer/notebook/certify.py",
        "explorer/notebook/diagnosis.py",
        "explorer/exhibits/cases/case.py",
        "explorer/exhibits/cases/choices.py",
        "explorer/exhibits/cases/outcome.py",
        "explorer/exhibits/cases/planted.py",
        "explorer/exhibits/model/calculator.py",
        "explorer/analysis/exercises/planted.py",
        "explorer/exhibits/exercises/planted.py",
    }
    assert set(importers) == showing


def test_the_right_pattern_is_that_of_the_models() -> None:
    q, k, v = (fixed_scores(2, 3, 5, 4, seed) for seed in range(3))
    keep = torch.rand(2, 3, 5, 5) > 0.5
    keep[0, 0, 0] = False  # a row with nothing too
    right = attend(q, k, v, keep)[1]
    torch.testing.assert_close(masked_softmax(q @ k.transpose(-2, -1) / 2, keep), right)
