"""The frame round every page: heading, first model, hints, and what a change of model keeps."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from shown import everything
from streamlit.testing.v1 import AppTest

from explorer.exhibits.escape import escape
from explorer.exhibits.links import State
from explorer.pages import PAGES
from explorer.shell import LINKS, first_state
from explorer.text import t
from explorer.ui.stage import BEAMER

CAUSAL = "causal-off"


def test_a_first_visit_in_chinese_translates_from_chinese_and_its_link_says_so(shipped):
    assert first_state("en") == State(lang="en")
    assert first_state("zh") == State(lang="zh", model="zh-en")
    assert LINKS.write(first_state("zh"))["model"] == "zh-en"


def test_a_link_without_a_model_means_the_model_of_the_first_language(open_page, shipped):
    at = open_page("model", lang="zh", text="I love you.")
    assert at.selectbox(key="sidebar.model").value == "en-zh"


def test_a_sentence_in_another_language_leads_to_the_model_that_reads_it(open_page, shipped):
    at = open_page("model", text="我爱你。", edits=CAUSAL)
    assert t("hints.language", lang="en", written="Chinese", reads="English") in everything(at)
    at.button(key="hints.take").click().run()
    assert at.query_params["model"] == "zh-en"
    assert at.query_params["text"] == "我爱你。"
    assert not [each for each in at.button if each.key == "hints.take"]


def test_a_sentence_in_capitals_can_be_lowered(open_page, shipped):
    at = open_page("model", text="I LOVE YOU.")
    assert t("hints.capitals", lang="en") in everything(at)
    at.button(key="hints.take").click().run()
    assert at.query_params["text"] == "I love you."


def test_another_model_keeps_the_sentence_and_the_edits_that_it_can_use(open_page, shipped):
    at = open_page("model", text="She reads a book.", edits=CAUSAL)
    at.selectbox(key="sidebar.model").select("stories").run()
    assert at.query_params["text"] == "She reads a book."
    assert at.query_params["edits"] == CAUSAL
    at.selectbox(key="sidebar.model").select("zh-en").run()
    assert "text" not in at.query_params
    dropped = t(
        "hints.dropped", lang="en", text=escape("She reads a book."), model="Chinese → English"
    )
    assert dropped in everything(at)
    at.selectbox(key="sidebar.model").select("copy").run()
    assert dropped not in everything(at)


def test_a_translation_of_ones_own_goes_with_the_language_it_is_in(open_page, shipped):
    given = {"text": "I love you.", "target": "我爱你。"}
    at = open_page("model", **given)
    at.selectbox(key="sidebar.model").select("stories").run()
    assert at.query_params["text"] == "I love you."
    assert "target" not in at.query_params
    assert "我爱你。" in everything(at)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_that_ignores_edits_says_so(open_page, page):
    """Whatever else the edits are: those that fit nothing are left out."""
    fits_nothing = "head-decoder.blocks.99.attn-0~cell-nowhere-all-0-0-open"
    at = open_page(page.name, edits=f"{CAUSAL}~{fits_nothing}")
    practised = page.name in ("cases", "training", "exercises")
    ignoring = practised or page.name in ("tour", "alignment", "circuits", "atlas", "card")
    assert (t("shell.unedited", lang="en") in everything(at)) == ignoring


def test_the_causal_mask_says_what_it_is_for_and_shows_what_happens_without(open_page, shipped):
    at = open_page("masks", text="I love you.")
    assert t("masks.purpose_why", lang="en") in everything(at)
    place = [at.selectbox(key=f"masks.{name}").value for name in ("layer", "head")]
    at.button(key="masks.purpose").click().run()
    assert at.query_params["edits"] == CAUSAL
    assert t("masks.twins_lead", lang="en") in everything(at)
    assert "the newest row chooses a token" in everything(at)
    assert place == [at.selectbox(key=f"masks.{name}").value for name in ("layer", "head")]
    at.button(key="masks.twins").click().run()
    assert at.query_params["model"] == "twin-no-causal"
    assert at.query_params["edits"] == CAUSAL


@pytest.mark.parametrize(
    ("page", "text", "edits"),
    [
        ("score", "Tom is not here.", "causal-off"),
        ("masks", "Can you help me?", "pad_keys-off"),
        ("masks", "Tom is not here.", "window-2"),
    ],
)
def test_an_edit_never_changes_what_is_looked_at(open_page, page, text, edits, shipped):
    plain, changed = (open_page(page, text=text, edits=each) for each in ("", edits))
    assert len(_looked_at(plain)) == 2
    assert _looked_at(plain) == _looked_at(changed)


def _looked_at(at: AppTest) -> list[object]:
    return [box.value for box in at.selectbox if str(box.key).endswith((".layer", ".head"))]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=() if at % 3 == 0 else pytest.mark.sweep)
        for at, page in enumerate(PAGES)
    ],
)
def test_a_class_sees_the_picture_first_and_everything_larger(open_page, page):
    usual, large = open_page(page.name), open_page(page.name, beamer="1")
    lead = t(f"{page.name}.try", lang="en")
    assert lead in everything(usual)
    assert t("shell.unedited", lang="en") not in everything(usual)
    assert lead not in everything(large)
    assert not large.title
    assert large.toggle(key="sidebar.beamer").value
    assert large.query_params["beamer"] == "1"
    for small, big in zip(usual.get("plotly_chart"), large.get("plotly_chart"), strict=False):
        before, after = (json.loads(each.proto.spec)["layout"] for each in (small, big))
        assert after["font"]["size"] > before["font"]["size"]
        assert "height" not in after  # a style gives it, with a bound by the screen's own
    styles = " ".join(each.proto.body for each in large.get("html"))
    heights = [json.loads(each.proto.spec)["layout"] for each in usual.get("plotly_chart")]
    wanted = sorted(f"{BEAMER * each['height']:g}" for each in heights if "height" in each)
    assert sorted(re.findall(r"height: min\(([\d.]+)px, max", styles)) == wanted


@pytest.mark.parametrize("beamer", ["", "1"])
def test_the_sentence_then_the_picture_then_the_controls(open_page, beamer):
    at = open_page("masks", **{"beamer": beamer} if beamer else {})
    order = [
        str(each.key) if each.type == "toggle" else str(each.type) for each in _in_order(at.main)
    ]
    picture = order.index("bidi_component")
    assert "masks.causal" in order[picture:]
    assert "masks.causal" not in order[:picture]


def _in_order(block: Any) -> Iterator[Any]:
    for each in block.children.values():
        if hasattr(each, "children"):
            yield from _in_order(each)
        else:
            yield each
