"""The Masks page's notations and fill values: what is chosen, and what is said about it."""

import re
from collections.abc import Callable

import pytest
from shown import everything, figure, reading
from streamlit.testing.v1 import AppTest

from explorer.exhibits.masks.choices import READERS, RENDERINGS, WAYS
from explorer.text import LANGUAGES, t

Open = Callable[..., AppTest]


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("part", ["conventions", "fills"])
@pytest.mark.parametrize("model", ["en-zh", "writer", "reader"])
def test_each_part_is_drawn_for_every_family(
    open_page: Open, lang: str, part: str, model: str
) -> None:
    at = open_page("masks", part=part, lang=lang, model=model, layer="1", head="1")
    assert not at.exception
    assert not at.warning
    assert t(f"masks.{part}_lead", lang=lang) in everything(at)
    for shown in ("formula", "code", "numbers"):
        at.segmented_control(key="masks.more").set_value(shown).run()
        assert not at.exception


def test_a_keep_mask_given_to_torchs_module_is_inverted_on_this_sentence(open_page: Open) -> None:
    at = open_page("masks", part="conventions", site="decoder", layer="1", head="1")
    assert "**the mask is inverted**" in reading(at, "” passed to “")
    assert "100 %" in reading(at, "” passed to “")
    at.segmented_control(key="masks.reader").set_value("sdpa").run()
    assert at.query_params["reader"] == "sdpa"
    assert "**the right weights**" in reading(at, "” passed to “")
    at.segmented_control(key="masks.rendering").set_value("ones").run()
    assert "**wrong weights**" in reading(at, "” passed to “")
    at.segmented_control(key="masks.reader").set_value("true_hides").run()
    assert "**an error**" in reading(at, "” passed to “")
    assert any("masked_fill" in each.value for each in at.code)


def test_the_counts_are_those_of_the_grid(open_page: Open) -> None:
    at = open_page("masks", part="conventions", site="decoder", layer="1", head="1")
    count, right, loud, silent = map(int, re.findall(r"\d+", reading(at, "combinations")))
    assert count == len(RENDERINGS) * len(READERS)
    assert right + loud + silent == count
    grid = figure(at, len(RENDERINGS))["data"][0]["text"]
    assert sum("right" in text for row in grid for text in row) == right
    assert sum("error" in text or text == "NaN" for row in grid for text in row) == loud


def test_a_mask_that_blocks_nothing_says_so(open_page: Open) -> None:
    for part, words in (("conventions", "conventions_open"), ("fills", "fills_all_open")):
        at = open_page("masks", part=part, site="encoder", layer="1", head="1", pads="0")
        assert t(f"masks.{words}", lang="en") in everything(at)
        at = open_page("masks", part=part, site="encoder", layer="1", head="1", pads="2")
        assert t(f"masks.{words}", lang="en") not in everything(at)


def test_lowered_scores_make_a_small_fill_leak(open_page: Open) -> None:
    at = open_page("masks", part="fills", site="decoder", layer="1", head="1", row="1")
    assert "visible keys, 0 leak weight" in reading(at, "torch rejects")
    at.slider(key="masks.lowered").set_value(12_000).run()
    assert at.query_params["lowered"] == "12000"
    assert "visible keys, 4 leak weight" in reading(at, "torch rejects")  # -1e4, in all four types
    assert t("masks.fills_own", lang="en") in reading(at, "torch rejects")


@pytest.mark.parametrize("way", WAYS)
def test_a_fill_that_is_added_twice_overflows(open_page: Open, way: str) -> None:
    at = open_page("masks", part="fills", site="decoder", layer="1", head="1", way=way)
    found = int(re.findall(r"(\d+) give NaN", reading(at, "torch rejects"))[0])
    assert found == (8 if way == "twice" else 4)  # -inf alone, or the lowest number too


@pytest.mark.parametrize(
    ("name", "value"),
    [("rendering", "2"), ("reader", "numpy"), ("way", "often"), ("lowered", "60001")],
)
def test_bad_values_of_a_link_are_said_and_left_out(open_page: Open, name: str, value: str) -> None:
    at = open_page("masks", part="conventions", **{name: value})
    assert not at.exception
    (warning,) = at.warning
    assert f"“{name} = " in str(warning.value)


def test_what_can_be_kept_are_the_page_a_report_and_the_matrices(open_page: Open) -> None:
    at = open_page("masks")
    assert not at.exception
    labels = [each.proto.label for each in at.get("download_button")]
    assert labels == [t(f"take.{name}", lang="en") for name in ("html", "paper", "svg")]
