"""All common bugs: what each card has, and its code."""

import ast
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from faults import BY_ID

from explorer.analysis.bugs import PITFALLS, Pitfall
from explorer.analysis.bugs.card import fixed_scores
from explorer.library import LoadedModel
from explorer.numerics import masked_softmax
from explorer.runs.trace import trace
from models.attention import attend

ROOT = Path(__file__).resolve().parents[3]


def test_ids_are_unique_and_the_list_is_whole() -> None:
    assert len(BY_ID) == len(PITFALLS) == 34


@pytest.mark.parametrize("pitfall", PITFALLS, ids=lambda pitfall: pitfall.id)
def test_wrong_and_right_differ_in_the_figures_shown(pitfall: Pitfall) -> None:
    shown = pitfall.demonstrate(None)
    assert not shown.own
    assert any(f.wrong != f.right for f in shown.figures)  # NaN differs from everything
    assert all(math.isfinite(f.right) for f in shown.figures)
    if shown.wrong is not None and shown.right is not None:
        assert shown.wrong.shape == shown.right.shape
        assert np.isfinite(shown.right).all()
        assert not np.array_equal(shown.wrong, shown.right)


@pytest.mark.parametrize("pitfall", PITFALLS, ids=lambda pitfall: pitfall.id)
def test_the_code_shown_is_a_few_lines_that_run(pitfall: Pitfall) -> None:
    for source in (pitfall.wrong_source, pitfall.right_source):
        (function,) = ast.parse(source).body
        assert isinstance(function, ast.FunctionDef)
        assert ast.get_docstring(function) is None  # the page says it in the reader's language
        assert len(source.splitlines()) <= 11
    assert pitfall.wrong.__doc__
    assert pitfall.right.__doc__
    assert pitfall.wrong_source != pitfall.right_source


@pytest.mark.parametrize("pitfall", PITFALLS, ids=lambda pitfall: pitfall.id)
@pytest.mark.parametrize("kind", ["translator", "writer"])
def test_a_demonstration_takes_the_sentence_of_the_reader(
    pitfall: Pitfall, kind: str, request: pytest.FixtureRequest
) -> None:
    loaded: LoadedModel = request.getfixturevalue(kind)
    traced = trace(loaded, "The cat sat.", "猫坐", pads=2)
    shown = pitfall.demonstrate(traced)
    assert shown.figures
    assert all(math.isfinite(f.right) for f in shown.figures)
    if shown.own and shown.right is not None and shown.right.ndim == 3:
        assert shown.right.shape[-1] in (len(traced.src_tokens), len(traced.tgt_tokens))
    assert pitfall.demonstrate(traced).own == shown.own  # and the Trace is as it was


def test_the_wrong_code_is_imported_by_nothing_but_the_pages_that_show_it() -> None:
    # The claim about fills puts the bugs' own wrong lines to the test; `certify` names the line
    # that shows a fault; an exercise plants a learner's mask as a bug is planted.
    importers = [
        path.relative_to(ROOT).as_posix()
        for folder in ("models", "explorer")
        for path in (ROOT / folder).rglob("*.py")
        if path.parent != ROOT / "explorer/analysis/bugs"
        and "analysis.bugs" in path.read_text(encoding="utf-8")
    ]
    showing = {
        "explorer/analysis/claims/attention.py",
        "explorer/notebook/diagnosis.py",
        "explorer/exhibits/bugs/choices.py",
        "explorer/exhibits/bugs/pitfall.py",
        "explorer/exhibits/bugs/planted.py",
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
