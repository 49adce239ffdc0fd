"""The Positions page: every kind of positions, what its widgets change, what comes from a link."""

from pathlib import Path

import pytest
from shown import charts, everything, filled, link, panels, reading

from explorer.text import t

WRITER = {"family": "decoder-only", "norm_placement": "pre", "final_norm": True}


@pytest.fixture(scope="session")
def shelf(tmp_path_factory, save_small) -> Path:
    folder = tmp_path_factory.mktemp("positions")
    save_small(folder / "en-zh")
    save_small(folder / "writer", **WRITER)
    save_small(folder / "turner", positions="rotary", **WRITER)
    save_small(folder / "placeless", positions="none")
    save_small(folder / "alibi", positions="alibi", **WRITER)
    save_small(folder / "t5", positions="t5")
    save_small(folder / "twin-learned", positions="learned")
    return folder


def test_base_and_width_move_the_wavelengths(open_page):
    at = open_page("positions", part="table")
    before = reading(at, "The wavelength is")
    at.select_slider(key="positions.base").set_value(10).run()
    at.select_slider(key="positions.width").set_value(8).run()
    after = reading(at, "The wavelength is")
    assert before != after
    assert "dimension 6" in after
    assert "35" in after  # 2 pi 10^(6/8)
    assert at.query_params["base"] == "10"
    assert at.query_params["width"] == "8"
    at.button(key="positions.own").click().run()
    assert at.query_params["width"] == "24"


def test_waves_of_no_dimension_say_what_to_do(open_page):
    at = open_page("positions", part="table", width="8")
    assert charts(at, "positions.waves")
    at.multiselect(key="positions.dims.8").set_value([]).run()
    assert t("positions.no_dims", lang="en") in everything(at)
    assert at.query_params["dims"] == "none"
    assert not charts(at, "positions.waves")


def test_shuffling_moves_vectors_with_positions_only(open_page):
    at = open_page("positions", text="I like you because you are kind.")
    before = reading(at, "Mean change")
    assert "without positions **0 %**" in before
    table = reading(at, "| with positions |")
    last = table.splitlines()[-1].split("|")
    assert last[2].strip() == last[3].strip() != ""  # a bag of words: the same output
    at.button(key="positions.shuffle").click().run()
    assert at.query_params["shuffle"] == "2"
    assert reading(at, "Mean change") != before


@pytest.mark.parametrize("text", ["book", "I I I"])
def test_words_in_one_order_only_are_not_shuffled(open_page, text):
    words = everything(open_page("positions", text=text))
    assert t("positions.one_word", lang="en") in words
    assert t("positions.texts", lang="en") not in words


def test_a_causal_mask_tells_the_order_and_without_positions_there_is_none_to_change(open_page):
    at = open_page("positions", model="writer", text="She reads a book every morning.")
    said = reading(at, "Mean change")
    assert "without positions **0 %**" not in said
    assert "without positions and without the causal mask **0 %**" in said
    near = everything(open_page("positions", part="order", edits="window-2"))
    assert "without positions **0 %**" not in near  # a window tells the order, too
    at = open_page("positions", part="head", model="placeless")
    assert t("positions.none_to_change", lang="en") in everything(at)
    at = open_page("positions", model="placeless")
    assert "| with positions |" not in everything(at)


def test_positions_are_changed_and_stand_in_the_link(open_page):
    at = open_page("positions", part="head", site="encoder")
    assert "has moved to other keys" in everything(at)
    at.selectbox(key="positions.change").select("shift").run()
    assert at.query_params["change"] == "shift-20"
    at.slider(key="positions.shift").set_value(0).run()
    assert "**0 %** of this head’s weight has moved" in everything(at)
    losses = filled(at, "positions.losses")
    assert losses["before"] == losses["after"]
    at.selectbox(key="positions.change").select("swap").run()
    at.selectbox(key="positions.second").select(2).run()
    assert at.query_params["change"] == "swap-1-2"
    at.segmented_control(key="positions.stream.head").set_value("tgt").run()
    assert at.query_params["stream"] == "tgt"
    for shown, key in (("difference", "difference"), ("scores", "both")):
        at.selectbox(key="positions.show").select(shown).run()
        assert panels(at, f"positions.{key}")
        assert at.query_params["picture"] == shown
    again = open_page("positions", **link(at))
    assert again.selectbox(key="positions.show").value == "scores"
    assert reading(again, "has moved to other keys") == reading(at, "has moved to other keys")


def test_query_and_key_of_the_arrows_are_chosen(open_page):
    at = open_page("positions", part="rotary", model="turner")
    assert t("positions.as_if", lang="en") not in everything(at)
    at.selectbox(key="positions.rotary.query").select(5).run()
    at.selectbox(key="positions.rotary.key").select(1).run()
    assert at.query_params["row"] == "5"
    assert at.query_params["key"] == "1"
    before = reading(at, "Rotated to their positions")
    at.segmented_control(key="positions.layout").set_value("half").run()
    assert reading(at, "Rotated to their positions") != before
    assert at.query_params["layout"] == "half"
    as_if = everything(open_page("positions", part="rotary"))
    assert t("positions.as_if", lang="en") in as_if


def test_the_sum_of_a_token_follows_the_link(open_page):
    at = open_page("positions", model="twin-learned", part="sum", place="3")
    assert reading(at, "at position 3")
    at.selectbox(key="positions.place").set_value(0).run()
    assert reading(at, "at position 0")
    assert at.query_params["place"] == "0"
    turned = open_page("positions", model="turner", part="sum")
    assert any("no position vectors" in each.value for each in turned.info)


@pytest.mark.parametrize(
    ("size", "said"),
    [({"width": "128", "length": "16"}, True), ({"width": "512", "length": "16"}, False)],
)
def test_a_curve_that_only_falls_has_no_rise(open_page, size, said):
    words = everything(open_page("positions", part="table", **size))
    assert ("The curve’s largest rise is 0.037" in words) == said
