"""Figures of the Positions page, by their data."""

from typing import Any

import numpy as np
import pytest

from explorer.figures.order import moved
from explorer.figures.positions.turning import arrows
from explorer.figures.scores import scores
from explorer.text import family

WORDS = family("figures.turning", lang="en")
HEATMAP: Any = {
    "words": family("figures.heatmap", lang="en"),
    "query_title": "query",
    "key_title": "key",
}


def test_bars_of_a_shuffled_row_share_their_tokens() -> None:
    values = np.array([[0.5, 0.25, 0.1], [0.0, 1e-7, 0.0]])
    figure = moved(
        ["a", "a", "<b>"], values, ["with", "without"], y_title="y", x_title="x", stream="src"
    )
    with_, without = figure["data"]
    np.testing.assert_allclose(with_["y"], [50, 25, 10])
    assert list(without["text"]) == ["0", "0", "0"]
    assert list(with_["text"]) == ["", "", ""]
    assert len(set(with_["x"])) == 3
    assert "&lt;b&gt;" in with_["x"][2]
    assert with_["marker"]["color"] != without["marker"]["color"]
    with pytest.raises(ValueError, match="distances"):
        moved(["a"], values, ["with", "without"], y_title="y", x_title="x", stream="src")


def test_scores_diverge_and_blocked_cells_have_none() -> None:
    values = np.array([[-3.0, 9.0], [1.0, 2.0]])
    mask = np.array([[True, False], [True, True]])
    figure = scores(values, mask, ["a", "b"], ["c", "d"], title="scores", **HEATMAP)
    trace = figure["data"][0]
    assert (trace["zmin"], trace["zmax"]) == (-3.0, 3.0)
    assert np.isnan(trace["z"][0, 1])
    assert trace["z"][1, 1] == 2.0
    assert trace["text"][0, 0] == "−3.00"
    assert trace["text"][0, 1] == "blocked"
    shared = scores(values, mask, ["a", "b"], ["c", "d"], title="scores", top=7.5, **HEATMAP)
    assert shared["data"][0]["zmax"] == 7.5


def test_arrows_begin_at_their_circle_and_keep_their_direction() -> None:
    q = np.array([[3.0, 4.0], [0.0, 1.0]])
    k = np.array([[1.0, 0.0], [0.0, -1.0]])
    figure = arrows(
        q,
        k,
        -q,
        k,
        wavelengths=np.array([6.28, 628.0]),
        contributions=np.array([0.5, -0.5]),
        words=WORDS,
    )
    _, bare_q, _, turned_q, _, spots = figure["data"]
    assert bare_q["x"][0] == turned_q["x"][0] == 0.0
    # The longest arrow (5) is the radius; one of length 1 is drawn sqrt(1 / 5) long.
    np.testing.assert_allclose([bare_q["x"][1], bare_q["y"][1]], [0.6, 0.8])
    np.testing.assert_allclose([turned_q["x"][1], turned_q["y"][1]], [-0.6, -0.8])
    np.testing.assert_allclose(bare_q["y"][4] - bare_q["y"][3], (1 / 5) ** 0.5)
    assert [note["text"] for note in figure["layout"]["annotations"]] == ["λ 6.3", "λ 628"]
    np.testing.assert_allclose(spots["customdata"][:, 2], [0.5, -0.5])
    with pytest.raises(ValueError, match="k has shape"):
        arrows(q, k[:1], q, k, wavelengths=np.ones(2), contributions=np.ones(2), words=WORDS)
