"""The map of patches, the graph of flow and the falling curves, as Plotly's JSON."""

import numpy as np
import pytest

from explorer.figures.patching.effect_map import EffectBlock, effect_map
from explorer.figures.patching.falls import falls
from explorer.figures.patching.flow_graph import Dot, FlowEdge, WordColumn, flow_graph
from explorer.figures.theme import palette

WORDS = {"recovered": "back", "head": "head", "nothing": "none"}


def blocks() -> list[EffectBlock]:
    upper = np.array([[0.5, np.nan, 1.5], [-2.0, 0.0, 0.004]])
    lower = np.array([[0.25]])
    return [
        EffectBlock("up", upper, ["0", "1"], ["<a>", "b", "b"], "src"),
        EffectBlock("down", lower, ["0"], ["c"], "tgt"),
    ]


def test_every_cell_has_a_point_in_reading_order_and_says_its_share() -> None:
    figure = effect_map(blocks(), selected=(1, 0, 0), words=WORDS)
    points = figure["data"][-1]
    assert points["x"].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert points["y"].tolist() == pytest.approx([0, 0, 0, 1, 1, 1, 2.7])
    assert points["text"].tolist() == ["50", "", "150", "−200", "", "", "25"]
    assert "back 50 %" in points["customdata"][0]
    assert "0 &lt;a&gt;" in points["customdata"][0]
    assert "none" in points["customdata"][1]
    assert np.nanmax(figure["data"][0]["z"]) == 1  # the scale ends at all of it
    (outline,) = figure["layout"]["shapes"]
    assert (outline["y0"], outline["x0"]) == (pytest.approx(2.2), -0.5)
    below = [each["text"] for each in figure["layout"]["annotations"]]
    assert below == ["c"]
    assert figure["layout"]["yaxis"]["ticktext"] == ["<b>up</b> · 0", "1", "<b>down</b> · 0"]


def test_heads_are_counted_and_sizes_must_agree() -> None:
    figure = effect_map(
        [EffectBlock("heads", np.zeros((2, 3)), ["1", "2"])], title="head", words=WORDS
    )
    assert figure["layout"]["xaxis"]["ticktext"] == ["1", "2", "3"]
    with pytest.raises(ValueError, match=r"the values of heads.*\(2, 3\)"):
        effect_map([EffectBlock("heads", np.zeros((2, 3)), ["1"])], words=WORDS)


def test_an_edge_is_as_wide_as_its_share_and_says_it() -> None:
    columns = [WordColumn("a", "src", 0, 0), WordColumn("<b>", "tgt", 1.6, 2)]
    lines = [
        FlowEdge((0, 0), (0, 1), 0.03, "thin"),
        FlowEdge((0, 1), (1.6, 3), 0.5, "a → <b>", crosses=True),
    ]
    dots = [Dot(0, 0, 0.25, "a", "src"), Dot(1.6, 3, 1.0, "b", "tgt")]
    figure = flow_graph(
        columns, dots, lines, written=(1.6, 3, "<w>"), levels=[(1, "one")], words={"share": "share"}
    )
    thin, wide, middles, vectors = figure["data"]
    assert thin["line"]["width"] < wide["line"]["width"]
    assert (thin["line"]["dash"], wide["line"]["dash"]) == ("solid", "dash")
    assert middles["customdata"].tolist() == ["thin", "a → &lt;b&gt;"]
    assert vectors["marker"]["size"] == [13.0, 22.0]
    said = [each["text"] for each in figure["layout"]["annotations"]]
    assert said == ["a", "&lt;b&gt;", "<b>&lt;w&gt;</b>"]


def test_the_band_of_chance_is_one_deviation_wide_and_stays_a_probability() -> None:
    random = np.array([[1.0, 0.5, 0.0], [1.0, 0.9, 0.0], [1.0, 0.1, 0.3]])
    figure = falls(
        [0, 1, 2], np.array([[1.0, 0.0, 0.0]]), ["one"], random,
        random_name="chance", x_title="x", y_title="p",
    )  # fmt: skip
    band, one, mean = figure["data"]
    assert mean["y"] == pytest.approx(random.mean(0))
    assert band["y"][1] == pytest.approx(0.5 + random[:, 1].std())
    assert band["y"].min() == 0
    assert (one["name"], mean["name"]) == ("one", "chance")
    assert mean["line"]["color"] == palette(False).muted
