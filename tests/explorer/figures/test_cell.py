"""The figures of one cell: their data are the numbers that came in."""

import numpy as np
import pytest

from explorer.figures import cell
from explorer.figures.theme import DARK, LIGHT
from explorer.text import family

WORDS = family("figures.cell", lang="en")


def test_vectors_keep_their_stream_and_their_numbers() -> None:
    figure = cell.vectors(
        np.array([[1.0, -2.0], [0.5, 4.0]]),
        ["q", "<k>"],
        ["src", None],
        words={**WORDS, "dimension": "维"},
    )
    q, k = figure["data"]
    np.testing.assert_array_equal(q["y"], [1.0, -2.0])
    np.testing.assert_array_equal(k["y"], [0.5, 4.0])
    assert q["marker"]["color"] == LIGHT.source
    assert k["marker"]["color"] == LIGHT.accent
    assert q["marker"]["pattern"]["shape"] != k["marker"]["pattern"]["shape"]
    assert k["name"] == "&lt;k&gt;"
    assert figure["layout"]["xaxis"]["title"]["text"] == "维"
    with pytest.raises(ValueError, match="values has shape"):
        cell.vectors(np.ones((3, 2)), ["q", "k"], ["src", "tgt"], words=WORDS)


def test_products_are_summed_up_along_the_line() -> None:
    bars, line = cell.products(np.array([1.0, -3.0, 0.5]), words=WORDS)["data"]
    np.testing.assert_array_equal(bars["y"], [1.0, -3.0, 0.5])
    np.testing.assert_array_equal(line["y"], [1.0, -2.0, -1.5])
    assert bars["marker"]["color"][0] != bars["marker"]["color"][1]


def test_blocked_bars_are_hatched_and_the_open_cell_is_outlined() -> None:
    figure = cell.signed(
        ["a", "b", "b"],
        np.array([1.0, -1.0, 2.0]),
        title="score",
        allowed=np.array([True, True, False]),
        marked=1,
        dark=True,
        words=WORDS,
    )
    (trace,) = figure["data"]
    assert list(trace["marker"]["pattern"]["shape"]) == ["", "", "/"]
    assert trace["marker"]["color"][2] == DARK.hatch
    assert trace["marker"]["line"]["width"] == [0, 2, 0]
    assert "blocked" in trace["text"][2]
    assert len(set(trace["x"])) == 3  # equal tokens are kept apart
    with pytest.raises(ValueError, match="allowed has shape"):
        cell.signed(["a"], np.ones(1), title="t", allowed=np.ones(2, bool), words=WORDS)


def test_the_histogram_counts_every_score_once() -> None:
    scores = np.array([-9.0, -0.05, 0.0, 0.05, 2.0])
    figure = cell.histogram(scores, 4.1, words=WORDS)  # 41 bars of 0.2
    counts = np.zeros(41)
    counts[[0, 20, 30]] = 1, 3, 1  # the lowest stands at the edge
    np.testing.assert_array_equal(figure["data"][0]["y"], counts)
    assert figure["layout"]["xaxis"]["range"] == [-4.1, 4.1]


def test_the_matrix_is_centred_on_zero_and_marks_its_cell() -> None:
    figure = cell.matrix(
        np.array([[1.0, -4.0]]),
        ["q"],
        ["k", "k"],
        title="score",
        marked=(0, 1),
        limit=None,
        words=WORDS,
    )
    (trace,) = figure["data"]
    assert (trace["zmin"], trace["zmax"]) == (-4.0, 4.0)
    np.testing.assert_array_equal(trace["z"], [[1.0, -4.0]])
    box = figure["layout"]["shapes"][0]
    assert (box["x0"], box["x1"], box["y0"], box["y1"]) == (0.5, 1.5, -0.5, 0.5)
    assert (
        cell.matrix(np.ones((1, 1)), ["q"], ["k"], title="t", limit=7.0, words=WORDS)["data"][0][
            "zmax"
        ]
        == 7
    )


def test_every_query_head_is_joined_to_the_one_it_reads() -> None:
    line, dots = cell.groups((0, 0, 1, 1), words=WORDS)["data"]
    np.testing.assert_array_equal(line["x"][0::3], [0, 1, 2, 3])
    np.testing.assert_array_equal(line["x"][1::3], [0.5, 0.5, 2.5, 2.5])
    assert dots["text"] == ["1", "2", "3", "4", "1", "2"]


def test_a_misspelt_word_is_refused() -> None:
    with pytest.raises(KeyError, match="sum"):
        cell.products(np.ones(2), words={"summ": "x", "dimension": "y"})
