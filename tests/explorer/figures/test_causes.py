"""Rankings, products and depths as figures: lengths, gaps, what is blank and what is dimmed."""

import numpy as np
import pytest

from explorer.figures.causes import depths, products, ranking
from explorer.text import family

WORDS = family("figures.causes", lang="en")


def test_what_freezing_leaves_out_is_a_bar_from_the_contribution_to_what_is_lost() -> None:
    figure = ranking(
        ["<a>", "b"], np.array([2.0, -1.0]), free=np.array([0.5, np.nan]), title="sum", words=WORDS
    )
    bars, marks, gaps = figure["data"]
    assert bars["x"].tolist() == [2.0, -1.0]
    assert bars["text"] == ["+2.000", "−1.000"]
    assert gaps["base"] == bars["x"].tolist()
    assert (gaps["x"][0], marks["x"][0]) == (-1.5, 0.5)
    assert np.isnan(gaps["x"][1])
    assert bars["y"][0].startswith("&lt;a&gt;")
    assert figure["layout"]["barmode"] == "overlay"
    with pytest.raises(ValueError, match="values has shape"):
        ranking(["a"], np.zeros(2), title="", words=WORDS)


def test_terms_that_belong_to_no_product_have_bars_and_no_cells() -> None:
    figure = products(
        np.array([[1.0, -3.0]]),
        ["q", "left over"],
        ["k", "l", "left over"],
        np.array([-2.0, 0.1]),
        np.array([1.0, -3.0, 0.1]),
        np.array([-1.0, np.nan]),
        np.array([0.5, np.nan, np.nan]),
        titles=("query", "key"),
        streams=("tgt", "src"),
        words=WORDS,
    )
    heatmap, by_row, _, by_column, _, row_gaps, column_gaps = figure["data"]
    assert heatmap["z"].shape == (1, 2)
    assert (heatmap["zmin"], heatmap["zmax"]) == (-3.0, 3.0)
    assert len(heatmap["y"]) == 1
    assert (len(by_row["y"]), len(by_column["x"])) == (2, 3)
    assert row_gaps["x"][0] == 1.0
    assert column_gaps["y"][0] == -0.5


@pytest.mark.parametrize(
    ("kind", "values", "nearest"),
    [("chance", [[0.1, 0.9]], 1), ("ranked", [[1.0, 500.0]], 0), ("distance", [[4.0, 0.0]], 1)],
)
def test_near_the_answer_is_dark_and_what_is_not_written_yet_is_blank(
    kind: str, values: list[list[float]], nearest: int
) -> None:
    given = {"kind": kind, "title": "t", "column_title": "read at", "words": WORDS}
    figure = depths([["x", "y"]], np.array(values), ["<d>"], ["a", "b"], doubtful=(0,), **given)
    (trace,) = figure["data"]
    assert int(trace["z"][0].argmax()) == nearest
    assert trace["z"].max() <= trace["zmax"]
    assert trace["z"].min() >= trace["zmin"]
    assert "<i>&lt;d&gt;</i>" in trace["y"][0]
    figure = depths([["x", "y"]], np.array(values), ["d"], ["a", "b"], n_shown=1, **given)
    (trace,) = figure["data"]
    assert trace["text"] == [["x"]]
    assert np.isnan(trace["z"][0, 1])
    assert trace["y"] == ["d"]
    assert len(figure["layout"]["xaxis"]["ticktext"]) == 1
