"""The clinic's pictures: weight on hidden keys, NaN, and pairs of bars."""

import numpy as np
import pytest

from explorer.figures.clinic import suspect
from explorer.figures.paired import paired
from explorer.text import family

TOKENS = ["a", "<b>", "a"]


def test_hidden_cells_are_hatched_only_while_they_are_empty() -> None:
    pattern = np.array([[0.7, 0.3, 0.0], [np.nan] * 3, [0.2, 0.3, 0.5]], np.float32)
    hidden = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], bool)
    figure = suspect(
        pattern,
        hidden,
        TOKENS,
        TOKENS,
        hidden_word="keep <out>",
        query_title="query",
        key_title="key",
        words=family("figures.heatmap", lang="en"),
    )
    (heatmap,) = figure["data"]
    z, text = heatmap["z"], heatmap["text"]
    assert np.isnan(z).tolist() == [[False, False, True], [False] * 3, [False] * 3]
    assert z[0, 1] == np.float32(0.3)  # weight where there must be none is shown as weight
    assert text[0][1] == "30.0 % · keep &lt;out&gt;"
    assert text[0][2] == "blocked: keep &lt;out&gt;"
    assert list(text[1]) == ["NaN"] * 3
    written = [(note["x"], note["y"], note["text"]) for note in figure["layout"]["annotations"]]
    assert written == [(key, 1, "NaN") for key in range(3)]
    assert figure["layout"]["images"]  # the hatching


def test_pairs_of_bars_stand_side_by_side() -> None:
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
