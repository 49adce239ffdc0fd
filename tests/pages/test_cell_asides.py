"""The asides of the Cell page: every one for every family; single head, engines, backward pass."""

from collections.abc import Callable
from pathlib import Path

import pytest
from shown import everything, figure, lines, panels
from streamlit.testing.v1 import AppTest

from explorer import library
from explorer.exhibits.cell.choices import ASIDES
from explorer.text import LANGUAGES, t

Open = Callable[..., AppTest]


@pytest.mark.parametrize("aside", ["single", "engines", "backward"])
@pytest.mark.parametrize("model", ["reader", "headless"])
def test_models_with_biased_scores_or_without_logits_have_these_asides_too(
    open_page: Open, model: str, aside: str
) -> None:
    at = open_page("cell", model=model, aside=aside, layer="1", head="2", row="1")
    assert not at.exception
    assert not at.warning
    if aside == "single":
        assert "yet its attention differs by up to" in everything(at)
    if aside == "engines":
        assert "All three compute the same layer" in everything(at)
    if aside == "backward":
        assert ("no logits" in everything(at)) == (model == "headless")
        assert "equal autograd’s" in everything(at)


def test_a_single_head_is_the_models_own_at_its_own_width_only(open_page: Open) -> None:
    at = open_page("cell", aside="single", site="cross", layer="1", head="2", row="1")
    assert "this **is** the head of the model" in everything(at)
    assert at.select_slider(key="cell.d_out").value == 6
    assert "24x24" in at.code[-1].value  # the refusal of a W_O that expects d_in
    assert "| **Q** | X W_Q · 24 → 6 |" in everything(at)
    at.select_slider(key="cell.d_out").set_value(24).run()
    assert at.query_params["d_out"] == "24"
    assert "this is another head" in everything(at)
    assert len(at.code) == 2  # d_in = d_out: nothing is refused
    unknown = open_page("cell", aside="single", d_out="5")  # a width that this layer cannot give
    assert unknown.select_slider(key="cell.d_out").value == 6


def test_the_engine_is_a_switch(open_page: Open) -> None:
    at = open_page("cell", aside="engines", site="decoder", layer="1", head="1")
    assert "All three compute the same layer" in everything(at)
    assert "still applies the given dropout_p" in everything(at)
    (own,) = panels(at)
    assert own["selected"] is not None
    at.segmented_control(key="cell.engine").set_value("fused").run()
    assert at.query_params["engine"] == "fused"
    assert t("cell.engine_no_weights", lang="en") in everything(at)
    assert not panels(at)
    at.segmented_control(key="cell.engine").set_value("module").run()
    assert "averages its heads" in everything(at)
    assert len(panels(at)) == 2
    at.toggle(key="cell.training").set_value(True).run()
    assert at.query_params["training"] == "1"
    assert "still applies the given dropout_p" not in everything(at)
    at.slider(key="cell.engine_drop").set_value(0).run()
    assert at.query_params["drop"] == "0"


def test_each_gradient_of_the_head_has_its_picture(open_page: Open) -> None:
    at = open_page("cell", aside="backward", site="cross", layer="1", head="1", row="1")
    assert "equal autograd’s" in everything(at)
    shapes = {}
    for name in ("v", "pattern", "scores", "q", "k"):
        at.segmented_control(key="cell.gradient").set_value(name).run()
        assert not at.exception
        z = figure(at, -1)["data"][0]["z"]
        shapes[name] = tuple(map(int, z["shape"].split(",")))
    assert at.query_params["gradient"] == "k"
    n_query, n_key = shapes["scores"]
    assert shapes["pattern"] == (n_query, n_key)
    assert shapes["q"] == (n_query, 6)
    assert shapes["v"] == shapes["k"] == (n_key, 6)
    at.segmented_control(key="cell.more").set_value("code").run()
    assert "def attention_backward(" in lines(at)[0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dropout": 0.2, "attention_dropout": 0.0}, "dropout_zero"),  # as the story model
        ({"dropout": 0.2}, "dropout_lead"),
    ],
)
def test_dropout_is_what_the_config_says(
    open_page: Open,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    save_small: Callable[..., None],
    changes: dict[str, float],
    said: str,
) -> None:
    save_small(tmp_path / "stories", family="decoder-only", **changes)
    monkeypatch.setattr(library, "CHECKPOINTS", tmp_path)
    words = everything(open_page("cell", model="stories", aside="dropout"))
    assert t(f"cell.{said}", lang="en", p=0.2) in words
    assert t("cell.dropout_none", lang="en") not in words


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("aside", ASIDES)
@pytest.mark.parametrize("model", ["en-zh", "writer"])
def test_every_aside_is_drawn_for_every_family(
    open_page: Open, lang: str, aside: str, model: str
) -> None:
    at = open_page("cell", lang=lang, model=model, aside=aside, layer="1", head="1", row="2")
    assert not at.exception
    assert not at.warning
    other = {
        "split": "split_not" if model == "en-zh" else "split_lead",
        "backward": "backward_formula",
        "dropout": "dropout_zero",  # their configs say so
    }
    if aside == "backward":
        at.segmented_control(key="cell.more").set_value("formula").run()
    root = t("cell.backward_root", lang=lang)
    key = other.get(aside, f"{aside}_lead")
    assert t(f"cell.{key}", lang=lang, d_in=24, divisor=root) in everything(at)
