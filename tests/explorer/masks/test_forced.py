"""The same words read again under changed masks: losses and the tokens that come next."""

from dataclasses import replace

import numpy as np
import pytest

from explorer.exhibits.masks.forced import forced
from explorer.library import LoadedModel
from explorer.runs.edits import CellEdit, MaskSwitch
from explorer.runs.trace import trace

TEXT, TARGET = "The cat ran.", "猫跑开了。"
OFF = (MaskSwitch("causal", False),)


@pytest.mark.parametrize("kind", ["translator", "writer"])
def test_without_edits_nothing_changes(kind: str, request: pytest.FixtureRequest) -> None:
    loaded: LoadedModel = request.getfixturevalue(kind)
    traced = trace(loaded, TEXT, TARGET, pads=2)
    found = forced(loaded, traced, ())
    np.testing.assert_allclose(found.losses_after, found.losses_before, atol=1e-5)
    assert len(found.tokens) == len(found.losses_after) == len(found.after)
    assert found.loss_before == pytest.approx(found.losses_before.mean())


def test_the_losses_are_those_of_a_trace_with_the_edits(translator: LoadedModel) -> None:
    traced = trace(translator, TEXT, TARGET, pads=1)
    edited = trace(translator, TEXT, TARGET, OFF, pads=1)
    found = forced(translator, traced, OFF)
    wide = edited.logits.astype(np.float64)
    logprobs = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    ids = (*traced.tgt_tokens[1 : int(traced.tgt_valid.sum())], translator.marks.end)
    expected = [-logprobs[row, token] for row, token in enumerate(ids)]
    np.testing.assert_allclose(found.losses_after, expected, atol=1e-5)
    assert found.tokens[-1] == "</s>"
    assert not np.allclose(found.losses_after, found.losses_before, atol=1e-3)


def test_what_comes_next_is_sorted_and_holds_the_best_of_before(translator: LoadedModel) -> None:
    traced = trace(translator, TEXT, TARGET)
    found = forced(translator, traced, (*OFF, CellEdit("cross", None, 0, 0, False)))
    for row, candidates in enumerate(found.after):
        probabilities = [each.after for each in candidates[:6]]
        assert probabilities == sorted(probabilities, reverse=True)
        best = traced.predicted_str_tokens[row]
        assert best.lstrip("·") in [each.token.lstrip("·") for each in candidates]
    with pytest.raises(ValueError, match="made by 'another'"):
        forced(translator, replace(traced, model="another"), ())
