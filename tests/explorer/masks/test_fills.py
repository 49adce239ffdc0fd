"""Fill values: which hide, leak, overflow or turn to NaN, in four types of number."""

import math

import numpy as np
import pytest

from explorer.exhibits.masks.choices import WAYS
from explorer.exhibits.masks.fills import DTYPES, FILLS, FillResult, fills

SCORES = np.array([[1.0, -1.0, 0.0], [0.5, 2.0, -0.5], [0.0, 1.0, 2.0]], np.float32)
KEEP = np.tril(np.ones((3, 3), bool))


def case(found: tuple[FillResult, ...], fill: str, dtype: str) -> FillResult:
    return next(each for each in found if (each.fill, each.dtype) == (fill, dtype))


def test_every_fill_is_tried_in_every_type() -> None:
    found = fills(SCORES, KEEP, 0)
    assert [(each.fill, each.dtype) for each in found] == [
        (fill, dtype) for fill in FILLS for dtype in DTYPES
    ]


def test_values_are_stored_as_the_types_can() -> None:
    found = fills(SCORES, KEEP, 0)
    assert case(found, "billion", "float16").refused  # float16 ends at 65504
    assert case(found, "ten_thousand", "bfloat16").stored == -9984  # 8 bits: steps of 64
    assert case(found, "billion", "bfloat16").stored == -998244352
    assert case(found, "lowest", "float16").stored == -65504
    assert case(found, "infinity", "float16").stored == -math.inf
    assert sum(each.refused for each in found) == 1


def test_at_usual_scores_all_hide_and_an_empty_row_tells_them_apart() -> None:
    found = fills(SCORES, KEEP, 0)
    assert all(each.hides and each.hidden == 0 for each in found if not each.refused)
    for dtype in DTYPES:
        assert case(found, "infinity", dtype).empty == "nan"
        assert case(found, "lowest", dtype).empty == "uniform"
        assert case(found, "zeroed", dtype).empty == "zero"
    np.testing.assert_allclose(case(found, "ten_thousand", "float32").row, 1 / 3)


def test_a_score_below_the_fill_lets_all_the_weight_through() -> None:
    """Scores of about -12000 against -1e4: e^2000 to 1 for the blocked keys."""
    found = fills(SCORES, KEEP, 0, lowered=12_000)
    for dtype in DTYPES:
        assert case(found, "ten_thousand", dtype).hidden == pytest.approx(1, abs=0.01)
        assert case(found, "lowest", dtype).hidden == 0
    assert case(found, "infinity", "float64").rounding == 0
    # Between 8192 and 16384, float16 has steps of 8: scores that differ by 2 become equal.
    assert case(found, "infinity", "float16").rounding > 0.2


def test_halfway_to_the_fill_the_leak_is_that_of_the_formula() -> None:
    """One visible score equal to the fill, and b blocked keys: they get b / (b + 1)."""
    scores = np.zeros((1, 3), np.float32)
    found = fills(scores, np.array([[True, False, False]]), 0, lowered=10_000)
    assert case(found, "ten_thousand", "float32").hidden == pytest.approx(2 / 3)


def test_added_to_an_empty_row_a_fill_cancels() -> None:
    found = fills(SCORES, KEEP, 0, "added")
    row = np.exp(SCORES[0].astype(np.float64))
    exact = case(found, "ten_thousand", "float64")
    assert exact.empty == "unmasked"
    np.testing.assert_allclose(exact.row, row / row.sum(), atol=1e-6)
    assert case(found, "lowest", "float32").empty == "uniform"  # the scores are lost in it


def test_twice_the_lowest_number_is_minus_infinity() -> None:
    found = fills(SCORES, KEEP, 0, "twice")
    assert {case(found, "lowest", dtype).empty for dtype in DTYPES} == {"nan"}
    assert case(found, "billion", "float32").empty != "nan"
    assert case(found, "zeroed", "float16").empty == "zero"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("lowered", [0.0, 1e3, 6e4])
def test_the_rule_of_this_library_is_right_everywhere(way: str, lowered: float) -> None:
    for each in fills(SCORES, KEEP, 2, way, lowered):
        if each.fill == "zeroed":
            assert each.hides
            assert each.hidden == 0
            assert each.empty == "zero"


def test_a_query_that_is_not_there_raises() -> None:
    with pytest.raises(IndexError):
        fills(SCORES, KEEP, 3)
