"""Faults of plain Python and of number types, by hand and against torch."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from faults import BY_ID, figure
from torch import nn

from explorer.analysis.cases import Row
from explorer.analysis.cases.inside import nan_rows
from explorer.analysis.cases.loops import STEPS, losses
from explorer.library import LoadedModel
from explorer.runs.trace import trace


def test_two_rows_are_unpacked_and_other_numbers_refused() -> None:
    bug = BY_ID["unpacked_batch"]
    src, tgt = bug.variant(torch.tensor([[1, 2, 3], [4, 5, 6]]))
    assert (src.tolist(), tgt.tolist()) == ([1, 2, 3], [4, 5, 6])
    wrong, right = (way.errors for way in bug.compared().ways)
    assert [of for of, error in wrong.items() if error] == ["1", "3", "4"]
    assert wrong["2"] == ""
    assert all("ValueError" in error for error in wrong.values() if error)
    assert list(right) == list(wrong)
    assert all(right.values())
    pair = {"src": src[None], "tgt": tgt[None]}
    assert [each.tolist() for each in bug.plain(pair)] == [[[1, 2, 3]], [[4, 5, 6]]]


def test_the_loss_falls_all_the_same() -> None:
    for step, low, high in (("1", 1.0, 3.0), (str(STEPS), 0.0, 0.01)):
        shown = figure("unpacked_batch", "step_loss", step)
        assert low < shown.wrong < high
        assert low < shown.right < high
    found = losses(torch.tensor([0, 1]), torch.tensor([0, 1]))
    torch.testing.assert_close(losses(torch.tensor([[0, 1]]), torch.tensor([[0, 1]])), found)


def test_a_list_times_three_is_one_matrix() -> None:
    one, copied = BY_ID["one_projection"], BY_ID["copied_projections"]
    w_q, w_k, w_v = one.variant(4)
    assert w_q is w_k is w_v
    w_q, w_k, _ = copied.variant(4)
    assert w_q.weight is not w_k.weight
    torch.testing.assert_close(w_q.weight, w_k.weight)
    w_q, w_k, _ = one.plain(4)
    assert not torch.allclose(w_q.weight, w_k.weight)
    assert figure("one_projection", "parameters") == (256, 768)  # d = 16
    assert figure("copied_projections", "parameters") == (768, 768)


@pytest.mark.parametrize("case", ["one_projection", "copied_projections"])
def test_equal_projections_have_symmetric_scores(case: str) -> None:
    fresh = figure(case, "asymmetry")
    assert fresh.wrong < 1e-5
    assert fresh.right > 0.1
    learned = figure(case, "asymmetry_learned")
    assert (learned.wrong < 1e-4) == (case == "one_projection")  # copies come apart
    loss = figure(case, "loss_learned")
    assert loss.right < 0.1
    assert (loss.wrong > 1) == (case == "one_projection")  # cannot tell left from right


def test_a_constant_row_by_type() -> None:
    """0.1 in float32: the mean is off by one rounding, 1.49e-8, over sqrt(1e-12)."""
    shown = figure("tiny_epsilon", "constant_row", "float32")
    assert shown.wrong == pytest.approx(0.0149, abs=1e-4)
    assert shown.right < 1e-5
    assert math.isnan(figure("tiny_epsilon", "constant_row", "float16").wrong)
    assert figure("tiny_epsilon", "constant_row", "float16").right == 0
    assert not any(BY_ID["tiny_epsilon"].compared().ways[0].errors.values())
    x = torch.randn(3, 8)
    torch.testing.assert_close(BY_ID["tiny_epsilon"].plain(x), nn.LayerNorm(8)(x))


def test_a_row_of_zeros_spreads(translator: LoadedModel) -> None:
    x = torch.cat([torch.randn(3, 8), torch.zeros(1, 8)]).half()
    assert nan_rows(BY_ID["tiny_epsilon"].variant, x) == 4
    assert nan_rows(BY_ID["tiny_epsilon"].variant, x[:3]) == 0
    assert nan_rows(BY_ID["tiny_epsilon"].plain, x) == 0
    traced = trace(translator, "The cat sat.", "猫坐在垫子上。")
    n = len(traced.tgt_tokens) + 1
    assert Row("pad_nan_rows", (n, 0), str(n)) in BY_ID["tiny_epsilon"].compared(traced).rows


def test_a_text_of_one_word_leaves_it_to_the_fixed_row(translator: LoadedModel) -> None:
    """A net that knows one word only has nothing to learn, so no loss could fall."""
    traced = trace(translator, "I love you.")
    bare = replace(traced, tgt_tokens=traced.tgt_tokens[:1], tgt_valid=np.ones(1, dtype=np.bool_))
    shown = BY_ID["unpacked_batch"].compared(bare)
    assert not shown.ways[1].own
    assert shown.rows == BY_ID["unpacked_batch"].compared().rows
    assert BY_ID["unpacked_batch"].compared(traced).ways[1].own
