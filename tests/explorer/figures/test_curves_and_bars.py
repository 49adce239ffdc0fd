"""Position figures, curves and bars by their data."""

import re

import numpy as np
import plotly.graph_objects as go
import pytest

from explorer.figures import bars, curves
from explorer.figures.positions import encoding
from explorer.figures.theme import LIGHT
from explorer.text import family

BARS, POSITIONS = (family(f"figures.{name}", lang="en") for name in ("bars", "positions"))

TABLE = np.array([[0.0, 1.0, 0.0], [0.5, -0.5, 2.0]], np.float32)


def test_table_is_drawn_row_by_position_around_zero() -> None:
    trace = encoding.table(TABLE, words=POSITIONS)["data"][0]
    np.testing.assert_array_equal(trace["z"], TABLE)
    assert (trace["zmin"], trace["zmax"]) == (-2, 2)


def test_gram_must_be_square() -> None:
    with pytest.raises(ValueError, match=r"values has shape \(2, 3\), expected \(2, 2\)"):
        encoding.gram(TABLE, words=POSITIONS)


def test_wavelengths_stand_on_a_log_axis_with_the_longest_text() -> None:
    figure = encoding.wavelengths(
        np.array([6.28, 6.28, 628.3]), n_ctx=128, marked=(2,), words=POSITIONS
    )
    assert figure["layout"]["yaxis"]["type"] == "log"
    assert figure["layout"]["shapes"][0]["y0"] == 128
    np.testing.assert_array_equal(figure["data"][0]["marker"]["size"], [5, 5, 11])
    with pytest.raises(ValueError, match="but there are 3 dimensions"):
        encoding.wavelengths(np.ones(3), marked=(3,), words=POSITIONS)


def test_waves_are_columns_of_the_table() -> None:
    figure = encoding.waves(TABLE, (2, 0), words={**POSITIONS, "dimension": "维度"})
    assert [trace["name"] for trace in figure["data"]] == ["维度 2", "维度 0"]
    np.testing.assert_array_equal(figure["data"][0]["y"], [0, 2])
    with pytest.raises(ValueError, match="but the table has 3 dimensions"):
        encoding.waves(TABLE, (3,), words=POSITIONS)


def test_curves_differ_without_colour_and_escape_their_names() -> None:
    ys = np.arange(12.0).reshape(6, 2)
    figure = curves.lines(np.arange(2), ys, ["<i>"] * 6, x_title="x", y_title="y", marked_x=1)
    assert len({trace["line"]["dash"] for trace in figure["data"]}) == 6
    assert figure["data"][0]["name"] == "&lt;i&gt;"
    assert figure["layout"]["shapes"][0]["x0"] == 1
    with pytest.raises(ValueError, match=r"ys has shape \(6, 2\), expected \(1, 2\)"):
        curves.lines(np.arange(2), ys, ["one"], x_title="x", y_title="y")


def test_row_shows_weights_and_hatches_what_is_blocked() -> None:
    figure = bars.row(
        ("a", "b", "<pad>"),
        np.array([0.4, 0.6, 0.0], np.float32),
        allowed=np.array([True, True, False]),
        stream="src",
        title="key",
        words=BARS,
    )
    [bar] = figure["data"]
    np.testing.assert_allclose(bar["y"], [40, 60, 66], rtol=1e-5)
    assert bar["text"].tolist() == ["40.0 %", "60.0 %", "blocked"]
    assert bar["marker"]["pattern"]["shape"].tolist() == ["", "", "/"]
    assert figure["layout"]["xaxis"]["title"]["font"]["color"] == LIGHT.source


@pytest.mark.parametrize("shape", [(2, 3), (2,)])
def test_row_refuses_weights_that_are_not_one_per_token(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=rf"weights has shape {re.escape(str(shape))}, expected"):
        bars.row(("a", "b", "c"), np.ones(shape), title="key", words=BARS)


def test_plotly_accepts_every_figure() -> None:
    for dark in (False, True):
        for figure in (
            encoding.table(TABLE, dark=dark, words=POSITIONS),
            encoding.gram(TABLE @ TABLE.T, dark=dark, words=POSITIONS),
            encoding.wavelengths(np.ones(3), n_ctx=9, dark=dark, words=POSITIONS),
            encoding.waves(TABLE, (0, 1), dark=dark, words=POSITIONS),
            encoding.dot_by_distance(np.arange(3), TABLE, ("a", "b"), dark=dark, words=POSITIONS),
            bars.row(("a", "b"), np.ones(2) / 2, title="key", dark=dark, words=BARS),
        ):
            go.Figure(figure)
