"""Figures of the Blocks page, by their data."""

import numpy as np
import pytest

from explorer.figures.blocks import (
    WiringNumbers,
    by_block,
    by_feature,
    by_token,
    eps_curves,
    gradients,
    units,
    wiring,
)
from explorer.text import family


def test_tokens_carry_their_numbers_and_padding_is_dimmed() -> None:
    values = np.array([[1.0, 2.0], [3.0, 0.5]])
    valid = np.array([[True, False], [True, True]])
    tokens = (("<i>", "<pad>"), ("a", "b"))
    figure = by_token(values, valid, tokens, ["1", "2"], title="size", top=3.0)
    notes = figure["layout"]["annotations"]
    assert [note["text"] for note in notes] == ["&lt;i&gt;", "&lt;pad&gt;", "a", "b"]
    assert [note["opacity"] for note in notes] == [1.0, 0.6, 1.0, 1.0]
    assert (figure["data"][0]["zmin"], figure["data"][0]["zmax"]) == (0.0, 3.0)
    assert by_token(-values, valid, tokens, ["1", "2"], title="s", top=3.0)["data"][0]["zmin"] == -3
    with pytest.raises(ValueError, match="valid"):
        by_token(values, valid[:1], tokens, ["1", "2"], title="size", top=3.0)


def test_features_are_one_row() -> None:
    figure = by_feature(np.array([1.0, -2.0]), title="mean", x_title="feature", top=2.0)
    assert figure["data"][0]["z"].shape == (1, 2)
    assert figure["data"][0]["zmin"] == -2.0


def test_sizes_stand_over_powers_of_ten() -> None:
    figure = eps_curves(
        np.array([1e-2, 1.0]), np.array([[0.5, 1.0]]), ["e"], x_title="x", y_title="y"
    )
    np.testing.assert_allclose(figure["data"][0]["x"], [-2, 0])
    assert figure["layout"]["xaxis"]["ticktext"][0] == "10<sup>−2</sup>"


def test_answers_stand_beside_each_other() -> None:
    figure = gradients(np.eye(3), ["a", "b", "c"], x_title="x", y_title="y")
    assert [trace["y"].tolist() for trace in figure["data"]] == np.eye(3).tolist()
    assert len({trace["marker"]["pattern"]["shape"] for trace in figure["data"]}) == 3
    with pytest.raises(ValueError, match="names"):
        gradients(np.eye(3), ["a"], x_title="x", y_title="y")


def test_a_wiring_has_its_norm_where_it_belongs() -> None:
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


def test_curves_by_block_show_the_mean_and_every_seed() -> None:
    values = np.array([[1.0, 4.0], [1.0, 1.0]])
    plain = by_block({"pre": values}, ["pre"], x_title="x", y_title="y")
    seeds, mean = plain["data"]
    np.testing.assert_allclose(mean["y"], [1.0, 2.5])
    np.testing.assert_allclose(seeds["y"], [1, 4, np.nan, 1, 1, np.nan])
    log = by_block({"pre": values}, ["pre"], x_title="x", y_title="y", log=True)
    np.testing.assert_allclose(log["data"][1]["y"], [1.0, 2.0])  # the geometric mean
    assert len(by_block({"pre": values[0]}, ["pre"], x_title="x", y_title="y")["data"]) == 1


def test_units_keep_their_numbers() -> None:
    words = {"title": "t", "x_title": "x", "y_title": "y"}
    figure = units(np.array([[1.0, -3.0]]), np.array([4, 90]), ["a"], stream="src", **words)
    assert figure["data"][0]["x"] == ["4", "90"]
    assert figure["data"][0]["zmax"] == 3.0
    with pytest.raises(ValueError, match="values"):
        units(np.zeros((2, 2)), np.array([4, 90]), ["a"], stream="src", **words)
