"""Lines and signs stand for links, and numbers for heads."""

import numpy as np
import pytest

from explorer.figures.alignment import lines, matrix, present, scores
from explorer.figures.circuits import composed, ringed
from explorer.figures.heatmap import attention
from explorer.text import family

WORDS = family("figures.alignment", lang="en")
HEATMAP = family("figures.heatmap", lang="en")
SRC, TGT = ("She", "reads", "<b>"), ("她", "看书")
LINKS = np.array([[True, False, False], [False, True, True]])
BY = np.array([["both", "", ""], ["", "forward", "reverse"]], dtype=object)
WEIGHTS = np.array([[0.9, 0.1, 0.0], [0.0, 0.6, 0.25]])


def test_each_link_is_a_line_between_its_words() -> None:
    figure = lines(SRC, TGT, LINKS, BY, WEIGHTS, titles=("source", "target"), words=WORDS)
    drawn = {trace["name"]: trace for trace in figure["data"] if "name" in trace}
    assert list(drawn) == [WORDS[name] for name in ("both", "forward", "reverse")]
    assert drawn["both models"]["y"] == [0.0, 0.0, None]
    assert drawn["this model"]["y"] == [1.0, 2.0, None]  # two words over three rows: 0 and 2
    assert drawn["reverse model"]["y"] == [2.0, 2.0, None]
    assert len({trace["line"]["dash"] for trace in drawn.values()}) == 3
    middles = figure["data"][-1]
    assert "She – 她" in middles["customdata"][0]
    assert "&lt;b&gt; – 看书" in middles["customdata"][2]
    assert "25.0 %" in middles["customdata"][2]
    with pytest.raises(ValueError, match=r"weights has shape \(1, 3\)"):
        lines(SRC, TGT, LINKS, BY, WEIGHTS[:1], titles=("", ""), words=WORDS)


def test_each_link_has_a_sign_in_the_matrix() -> None:
    figure = matrix(
        SRC, TGT, WEIGHTS, LINKS, BY, titles=("s", "t"), words=WORDS, heatmap_words=HEATMAP
    )
    heatmap, *signs = figure["data"]
    assert [(sign["x"], sign["y"]) for sign in signs] == [
        ([heatmap["x"][0]], [heatmap["y"][0]]),
        ([heatmap["x"][1]], [heatmap["y"][1]]),
        ([heatmap["x"][2]], [heatmap["y"][1]]),
    ]
    assert present(np.zeros_like(LINKS), BY) == []


def test_heads_stand_in_the_order_of_their_points() -> None:
    maps = [np.array([[0.1, 0.2, 0.3]]), np.array([[0.4, 0.5, 0.6]])]
    figure = scores(maps, ["one", "two"], selected=(1, 0, 2), words={**WORDS, "score": "x"})
    points = figure["data"][-1]
    assert [text.rpartition(" ")[2] for text in points["customdata"]] == [
        *("0.10", "0.20", "0.30", "0.40", "0.50", "0.60")
    ]
    (outline,) = figure["layout"]["shapes"]
    assert (outline["x0"] + outline["x1"]) / 2 == 2
    assert (outline["y0"] + outline["y1"]) / 2 == pytest.approx(points["y"][-1])
    with pytest.raises(ValueError, match="2 maps, but 1 names"):
        scores(maps, ["one"], words={**WORDS, "score": "x"})


def test_composition_names_the_first_head_of_each_layer() -> None:
    found = np.full((4, 4), np.nan)
    found[2:, :2] = [[0.2, 0.1], [0.15, 0.05]]
    heads = [(0, 0), (0, 1), (1, 0), (1, 1)]
    words = family("figures.composed", lang="en")
    figure = composed(found, heads, baseline=0.1, words=words)
    heatmap = figure["data"][0]
    assert (heatmap["zmin"], heatmap["zmax"]) == (0.1, 0.2)
    assert "2.1 ← 1.1: 0.200" in heatmap["text"][2][0]
    assert figure["layout"]["xaxis"]["ticktext"] == ["1.1", "2.1"]
    with pytest.raises(ValueError, match="scores has shape"):
        composed(found[:3], heads, baseline=0.1, words=words)


def test_rings_stand_on_their_cells() -> None:
    titles = {"query_title": "q", "key_title": "k"}
    plain = attention(np.eye(3), None, "abc", "abc", **titles, words=HEATMAP)  # type: ignore[arg-type]
    figure = ringed(plain, np.array([1, 2]), np.array([0, 1]))
    assert len(plain["data"]) == 1
    assert figure["data"][1]["x"] == [plain["data"][0]["x"][0], plain["data"][0]["x"][1]]
    assert figure["data"][1]["y"] == [plain["data"][0]["y"][1], plain["data"][0]["y"][2]]
