"""The figures of one cell: their data are the numbers that came in."""

import numpy as np
import pytest

from explorer.figures import score as cell
from explorer.figures.attribution import ranking
from explorer.figures.bars import paired
from explorer.figures.blocks import WiringNumbers, by_block, eps_curves, gradients, wiring
from explorer.figures.theme import DARK, LIGHT
from explorer.text import family

CELL_WORDS = family("figures.score", lang="en")
CAUSE_WORDS = family("figures.attribution", lang="en")
TOKENS = ["a", "<b>", "a"]


def test_vectors_keep_their_numbers_and_blocked_bars_are_hatched():
    figure = cell.vectors(
        np.array([[1.0, -2.0], [0.5, 4.0]]),
        ["q", "<k>"],
        ["src", None],
        words={**CELL_WORDS, "dimension": "维"},
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
        cell.vectors(np.ones((3, 2)), ["q", "k"], ["src", "tgt"], words=CELL_WORDS)
    bars, line = cell.products(np.array([1.0, -3.0, 0.5]), words=CELL_WORDS)["data"]
    np.testing.assert_array_equal(bars["y"], [1.0, -3.0, 0.5])
    np.testing.assert_array_equal(line["y"], [1.0, -2.0, -1.5])
    assert bars["marker"]["color"][0] != bars["marker"]["color"][1]
    figure = cell.signed(
        ["a", "b", "b"],
        np.array([1.0, -1.0, 2.0]),
        title="score",
        allowed=np.array([True, True, False]),
        marked=1,
        dark=True,
        words=CELL_WORDS,
    )
    (trace,) = figure["data"]
    assert list(trace["marker"]["pattern"]["shape"]) == ["", "", "/"]
    assert trace["marker"]["color"][2] == DARK.hatch
    assert trace["marker"]["line"]["width"] == [0, 2, 0]
    assert "blocked" in trace["text"][2]
    assert len(set(trace["x"])) == 3  # equal tokens are kept apart
    with pytest.raises(ValueError, match="allowed has shape"):
        cell.signed(["a"], np.ones(1), title="t", allowed=np.ones(2, bool), words=CELL_WORDS)


def test_the_histogram_counts_each_score_and_what_freezing_leaves_out_is_a_bar():
    scores = np.array([-9.0, -0.05, 0.0, 0.05, 2.0])
    figure = cell.histogram(scores, 4.1, words=CELL_WORDS)  # 41 bars of 0.2
    counts = np.zeros(41)
    counts[[0, 20, 30]] = 1, 3, 1  # the lowest stands at the edge
    np.testing.assert_array_equal(figure["data"][0]["y"], counts)
    assert figure["layout"]["xaxis"]["range"] == [-4.1, 4.1]
    line, dots = cell.groups((0, 0, 1, 1), words=CELL_WORDS)["data"]
    np.testing.assert_array_equal(line["x"][0::3], [0, 1, 2, 3])
    np.testing.assert_array_equal(line["x"][1::3], [0.5, 0.5, 2.5, 2.5])
    assert dots["text"] == ["1", "2", "3", "4", "1", "2"]
    figure = ranking(
        ["<a>", "b"],
        np.array([2.0, -1.0]),
        free=np.array([0.5, np.nan]),
        title="sum",
        words=CAUSE_WORDS,
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
        ranking(["a"], np.zeros(2), title="", words=CAUSE_WORDS)


def test_sizes_stand_over_powers_of_ten_and_a_wiring_has_its_norm_where_it_belongs():
    figure = eps_curves(
        np.array([1e-2, 1.0]), np.array([[0.5, 1.0]]), ["e"], x_title="x", y_title="y"
    )
    np.testing.assert_allclose(figure["data"][0]["x"], [-2, 0])
    assert figure["layout"]["xaxis"]["ticktext"][0] == "10<sup>−2</sup>"
    figure = gradients(np.eye(3), ["a", "b", "c"], x_title="x", y_title="y")
    assert [trace["y"].tolist() for trace in figure["data"]] == np.eye(3).tolist()
    assert len({trace["marker"]["pattern"]["shape"] for trace in figure["data"]}) == 3
    with pytest.raises(ValueError, match="names"):
        gradients(np.eye(3), ["a"], x_title="x", y_title="y")
    shown = WiringNumbers(before="x 1", added="+ 2", behind="3", back="g 4")
    figure = wiring(
        {"post": shown, "pre": shown, "sublayer": shown},
        words=family("figures.residual", lang="en"),
    )
    notes = figure["layout"]["annotations"]
    norms = [note for note in notes if note["text"] == "norm"]
    f = [note for note in notes if note["text"] == "f"]
    joins = [note for note in notes if note["text"] == "+"]
    assert norms[0]["y"] == joins[0]["y"]  # on the stream, behind the sum
    assert norms[0]["x"] > joins[0]["x"]
    assert norms[1]["x"] < f[1]["x"]  # on the branch, before f
    assert norms[1]["y"] == f[1]["y"]
    assert norms[2]["x"] > f[2]["x"]  # on the branch, behind f
    assert norms[2]["y"] == f[2]["y"]
    assert sum(note["text"] == "g 4" for note in notes) == 3


def test_curves_show_every_seed_and_pairs_of_bars_stand_side_by_side():
    values = np.array([[1.0, 4.0], [1.0, 1.0]])
    plain = by_block({"pre": values}, ["pre"], x_title="x", y_title="y")
    seeds, mean = plain["data"]
    np.testing.assert_allclose(mean["y"], [1.0, 2.5])
    np.testing.assert_allclose(seeds["y"], [1, 4, np.nan, 1, 1, np.nan])
    log = by_block({"pre": values}, ["pre"], x_title="x", y_title="y", log=True)
    np.testing.assert_allclose(log["data"][1]["y"], [1.0, 2.0])  # the geometric mean
    assert len(by_block({"pre": values[0]}, ["pre"], x_title="x", y_title="y")["data"]) == 1
    first, second = np.array([1.0, np.nan, -2.0]), np.array([0.5, 3.0, np.inf])
    figure = paired(TOKENS, first, second, ("before", "after"), title="<loss>")
    before, after = figure["data"]
    assert list(before["y"]) == [1.0, 0.0, -2.0]
    assert before["text"][1] == after["text"][2] == "NaN"
    assert len(set(before["x"])) == 3  # equal tokens are kept apart
    assert before["marker"]["pattern"]["shape"] != after["marker"]["pattern"]["shape"]
    assert figure["layout"]["barmode"] == "group"
    assert "<loss>" not in str(figure["layout"])
    with pytest.raises(ValueError, match="after"):
        paired(TOKENS, first, second[:2], ("before", "after"), title="")
