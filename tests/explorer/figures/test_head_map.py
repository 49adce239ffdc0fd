"""The maps of heads and of patches by their data."""

from typing import Any

import numpy as np
import pytest

from explorer.figures.effect_map import EffectBlock, effect_map
from explorer.figures.head_map import GAP, head_map
from explorer.figures.theme import LIGHT
from explorer.text import family

WORDS = family("figures.head_map", lang="en")
CELL_WORDS = {"recovered": "back", "head": "head", "nothing": "none"}

ONE = np.array([[-2.0, 0.5], [0.0, 0.1]])
OTHER = np.array([[1.0, -0.5]])


def draw(**more: Any) -> dict[str, Any]:
    return head_map([ONE, OTHER], ["Encoder", "<b>Cross</b>"], words=WORDS, **more)


def test_kinds_stand_below_each_other_on_one_scale_around_zero() -> None:
    one, other, points = draw()["data"]
    np.testing.assert_array_equal(one["z"], ONE.astype(np.float32))
    assert (one["zmin"], one["zmax"], other["zmax"]) == (-2, 2, 2)
    assert (one["y0"], other["y0"]) == (0, 2 + GAP)
    assert one["showscale"] != other["showscale"]
    np.testing.assert_allclose(points["y"], [0, 0, 1, 1, 2 + GAP, 2 + GAP])
    np.testing.assert_array_equal(points["x"], [0, 1, 0, 1, 0, 1])


def test_a_point_says_its_head_and_its_number_and_names_cannot_speak_html() -> None:
    said = draw(off=[(1, 0, 0)])["data"][-1]["customdata"]
    assert said[0] == "<b>Encoder</b>, layer 1, head 1<br>−2.00"
    assert said[3] == "<b>Encoder</b>, layer 2, head 2<br>+0.10"
    assert said[4] == "<b>&lt;b&gt;Cross&lt;/b&gt;</b>, layer 1, head 1<br>ablated"


def test_a_head_that_is_off_is_crossed_out_and_the_selected_one_outlined() -> None:
    figure = draw(off=[(0, 1, 0)], selected=(1, 0, 1))
    assert figure["data"][-1]["text"].tolist() == ["", "", "✕", "", "", ""]
    (shape,) = figure["layout"]["shapes"]
    assert (shape["x0"], shape["y0"]) == (0.5, pytest.approx(2 + GAP - 0.5))
    assert shape["line"]["color"] == LIGHT.accent
    assert "shapes" not in draw()["layout"]


def test_layers_are_counted_within_their_kind() -> None:
    axis = draw()["layout"]["yaxis"]
    assert axis["ticktext"] == ["Encoder · 1", "2", "&lt;b&gt;Cross&lt;/b&gt; · 1"]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="2 maps, but 1 names"):
        head_map([ONE, OTHER], ["Encoder"], words=WORDS)
    with pytest.raises(ValueError, match=r"the map of Cross has shape \(1, 3\), expected \(1, 2\)"):
        head_map([ONE, np.zeros((1, 3))], ["Encoder", "Cross"], words=WORDS)


def blocks() -> list[EffectBlock]:
    upper = np.array([[0.5, np.nan, 1.5], [-2.0, 0.0, 0.004]])
    lower = np.array([[0.25]])
    return [
        EffectBlock("up", upper, ["0", "1"], ["<a>", "b", "b"], "src"),
        EffectBlock("down", lower, ["0"], ["c"], "tgt"),
    ]


def test_every_cell_has_a_point_in_reading_order_and_says_its_share() -> None:
    figure = effect_map(blocks(), selected=(1, 0, 0), words=CELL_WORDS)
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
        [EffectBlock("heads", np.zeros((2, 3)), ["1", "2"])], title="head", words=CELL_WORDS
    )
    assert figure["layout"]["xaxis"]["ticktext"] == ["1", "2", "3"]
    with pytest.raises(ValueError, match=r"the values of heads.*\(2, 3\)"):
        effect_map([EffectBlock("heads", np.zeros((2, 3)), ["1"])], words=CELL_WORDS)
