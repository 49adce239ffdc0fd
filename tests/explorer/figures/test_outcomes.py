"""The grid of outcomes and the small masks."""

import numpy as np
import pytest

from explorer.figures.outcomes import outcomes, written_mask
from explorer.figures.theme import palette


@pytest.mark.parametrize("dark", [False, True])
def test_each_level_has_its_colour_and_each_case_its_words(dark: bool) -> None:
    figure = outcomes(
        [["good", "loud"], ["silent", "good"]],
        [["right", "NaN"], ["leaks\n<10 %", "0"]],
        ["a", "b"],
        ["x", "y"],
        selected=(1, 0),
        dark=dark,
    )
    trace = figure["data"][0]
    assert trace["z"].tolist() == [[0, 1], [2, 0]]
    assert trace["text"][1][0] == "leaks<br>&lt;10 %"
    edges = [edge for edge, _ in trace["colorscale"]]
    assert edges == pytest.approx([0, 1 / 3, 1 / 3, 2 / 3, 2 / 3, 1])
    assert trace["colorscale"][-1][1] == palette(dark).diverging[1]
    (box,) = figure["layout"]["shapes"]
    assert (box["x0"], box["y1"]) == (-0.5, 1.5)


def test_sizes_that_disagree_are_named() -> None:
    with pytest.raises(ValueError, match=r"texts has shape \(1, 1\), expected \(1, 2\)"):
        outcomes([["good", "good"]], [["a"]], ["r"], ["x", "y"])
    with pytest.raises(ValueError, match="texts"):
        written_mask(np.ones((2, 2), bool), np.full((2, 3), "1"))


def test_values_of_a_mask_are_written_while_there_is_room() -> None:
    keep = np.tril(np.ones((4, 4), bool))
    assert written_mask(keep, np.full((4, 4), "−1e9"))["data"][0]["texttemplate"] == "%{text}"
    keep = np.tril(np.ones((9, 9), bool))
    assert written_mask(keep, np.full((9, 9), "−1e9"))["data"][0]["texttemplate"] == ""
    figure = written_mask(keep, np.full((9, 9), "T"))["data"][0]
    assert figure["texttemplate"] == "%{text}"
    np.testing.assert_array_equal(figure["z"] == 0, keep)
