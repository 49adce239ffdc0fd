"""Heatmaps by their data: what is blocked, what hover says, how weights become colours."""

import re
from functools import partial
from typing import Any
from urllib.parse import unquote

import numpy as np
import plotly.graph_objects as go
import pytest

from explorer.figures import heatmap
from explorer.figures.theme import DARK, LIGHT
from explorer.labels import SpecialToken
from explorer.text import family

WORDS = family("figures.heatmap", lang="en")
TITLES = {"query_title": "query", "key_title": "key"}
attention = partial(heatmap.attention, words=WORDS, **TITLES)
difference = partial(heatmap.difference, words=WORDS, **TITLES)

QUERIES = (SpecialToken("<s>"), "<b>狗</b>")
KEYS = ("the", "the", SpecialToken("</s>"))
PATTERN = np.array([[0.75, 0.25, 0.0], [0.0002, 0.0998, 0.9]], np.float32)
MASK = np.array([[True, True, False], [True, True, True]])
LABELS = np.array([["", "", "the <future>"], ["", "", ""]])


def draw(**more: Any) -> dict[str, Any]:
    return attention(PATTERN, MASK, QUERIES, KEYS, blocked_labels=LABELS, **more)


def test_a_blocked_cell_is_a_gap_and_not_a_small_weight() -> None:
    z = draw()["data"][0]["z"]
    np.testing.assert_array_equal(np.isnan(z), ~MASK)
    np.testing.assert_allclose(z[MASK], PATTERN[MASK])


def test_hover_says_the_weight_or_which_mask_blocked_it() -> None:
    text = draw()["data"][0]["text"]
    assert text.tolist() == [
        ["75.0 %", "25.0 %", "blocked: the &lt;future&gt;"],
        ["&lt; 0.1 %", "10.0 %", "90.0 %"],
    ]


def test_hatching_covers_exactly_the_blocked_cells() -> None:
    mask = np.array([[True, False, False, True], [False, True, True, False]])
    pattern = np.where(mask, 0.5, 0).astype(np.float32)
    image = attention(pattern, mask, ("a", "b"), ("c", "d", "e", "f"))["layout"]["images"]
    svg = unquote(image[0]["source"])
    # Four columns of 225 and two rows of 30: the runs are (row 0, 1-3), (row 1, 0-1), (row 1, 3-4).
    runs = re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v", svg)
    assert [tuple(float(number) for number in run) for run in runs] == [
        (225, 0, 450),
        (0, 30, 225),
        (675, 30, 225),
    ]
    assert (image[0]["sizex"], image[0]["sizey"]) == (4, 2)


def test_tokens_cannot_speak_html_and_doubles_stay_apart() -> None:
    trace = draw()["data"][0]
    assert trace["y"][1].rstrip("\u200b") == "&lt;b&gt;狗&lt;/b&gt;"
    assert len(set(trace["x"])) == 3
    assert [label.rstrip("\u200b") for label in trace["x"][:2]] == ["the", "the"]
    assert LIGHT.muted in trace["x"][2]
    assert LIGHT.muted not in trace["x"][0]


def test_axes_are_named_in_the_streams_colours_and_queries_run_down() -> None:
    layout = draw(query_title="target · query", query_stream="tgt", key_stream="src", dark=True)[
        "layout"
    ]
    assert layout["yaxis"]["title"]["text"] == "target · query"
    assert layout["yaxis"]["title"]["font"]["color"] == DARK.target
    assert layout["xaxis"]["title"]["font"]["color"] == DARK.source
    assert layout["yaxis"]["autorange"] == "reversed"


def test_labels_that_fit_stand_side_by_side() -> None:
    axis = draw()["layout"]["xaxis"]
    assert axis["tickangle"] == 0
    assert axis["tickvals"] == [0, 1, 2]
    assert axis["ticktext"][:2] == ["the", "the"]
    assert LIGHT.muted in axis["ticktext"][2]


def test_many_labels_stand_on_lines_in_turn_then_thin_out_and_never_lean() -> None:
    def axis(*tokens: str) -> tuple[dict[str, Any], int]:
        cells = np.full((1, len(tokens)), 1 / len(tokens), np.float32)
        layout = attention(cells, None, ("q",), tokens)["layout"]
        assert layout["xaxis"]["tickangle"] == 0
        return layout["xaxis"], layout["height"]

    two, tall = axis(*["because"] * 9)  # 420 / 9 = 47 px for labels of 60
    assert two["ticktext"] == ["because", "because<br>\u00a0"] * 4 + ["because"]
    few, low = axis("a", "b")
    assert (few["ticktext"], tall - low) == (["a", "b"], 18)
    many, _ = axis(*["because"] * 40)  # 10.5 px each: two of three lines are not enough
    assert many["tickvals"] == list(range(0, 40, 2))
    assert many["ticktext"][2] == "because<br>\u00a0<br>\u00a0"
    long, _ = axis(*["<b>" * 12] * 12)
    assert long["ticktext"][0] == "&lt;b&gt;" * 3 + "…"


def test_log_scale_shows_powers_of_ten() -> None:
    trace = draw(scale="log")["data"][0]
    np.testing.assert_allclose(trace["z"][1, 0], np.log10(0.0002), rtol=1e-5)
    assert (trace["zmin"], trace["zmax"]) == (-4, 0)
    assert trace["colorbar"]["ticktext"] == ["0.01 %", "0.1 %", "1 %", "10 %", "100 %"]


def test_rank_scale_orders_the_open_cells_of_each_row() -> None:
    z = draw(scale="rank")["data"][0]["z"]
    np.testing.assert_allclose(z[0, :2], [1, 0])
    np.testing.assert_allclose(z[1], [0, 0.5, 1])


def test_selected_query_is_outlined() -> None:
    shape = draw(selected=1)["layout"]["shapes"][0]
    assert (shape["y0"], shape["y1"], shape["x1"]) == (0.5, 1.5, 2.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((PATTERN.T, MASK, QUERIES, KEYS), r"pattern has shape \(3, 2\), expected \(2, 3\)"),
        ((PATTERN, MASK.T, QUERIES, KEYS), r"mask has shape \(3, 2\), expected \(2, 3\)"),
        ((PATTERN, MASK.astype(np.float32), QUERIES, KEYS), "mask is float32, expected bool"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_sizes(arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        attention(*arguments)


def test_other_refusals() -> None:
    with pytest.raises(ValueError, match="selected is 2, but there are 2 queries"):
        draw(selected=2)
    with pytest.raises(ValueError, match="scale is 'cubic'"):
        draw(scale="cubic")
    with pytest.raises(KeyError, match="weight"):
        draw(words={"blocked": "被遮挡", "wieght": "权重"})


def test_difference_is_after_minus_before_in_points() -> None:
    before = np.array([[0.5, 0.5, 0.0]], np.float32)
    after = np.array([[0.2, 0.7, 0.1]], np.float32)
    figure = difference(
        before,
        after,
        ("q",),
        ("a", "b", "c"),
        mask_before=np.array([[True, True, False]]),
        mask_after=np.array([[True, True, True]]),
    )
    trace = figure["data"][0]
    np.testing.assert_allclose(trace["z"], [[-30, 20, 10]], atol=1e-5)
    assert (trace["zmin"], trace["zmax"]) == (pytest.approx(-30), pytest.approx(30))
    assert trace["text"][0, 0] == "before 50.0 % → after 20.0 %<br>−30.0 points"
    assert trace["text"][0, 2] == "before blocked → after 10.0 %<br>+10.0 points"
    assert "images" not in figure["layout"]


def test_difference_hatches_what_both_runs_block_and_keeps_noise_pale() -> None:
    shut = np.array([[True, False]])
    figure = difference(
        np.array([[1.0, 0.0]]),
        np.array([[0.999, 0.0]]),
        ("q",),
        ("a", "b"),
        mask_before=shut,
        mask_after=shut,
    )
    trace = figure["data"][0]
    assert np.isnan(trace["z"][0, 1])
    assert trace["zmax"] == 1.0
    assert len(figure["layout"]["images"]) == 1


def test_one_trace_of_arrays_that_plotly_accepts() -> None:
    for figure in (draw(dark=True, selected=0), difference(PATTERN, PATTERN, QUERIES, KEYS)):
        assert len(figure["data"]) == 1
        assert isinstance(figure["data"][0]["z"], np.ndarray)
        assert figure["data"][0]["z"].dtype == np.float32
        go.Figure(figure)
