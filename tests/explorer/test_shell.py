"""The frame round every page, and words that follow from what a page shows."""

import json
import re

import pytest
from cores import every
from shown import charts, everything, filled
from streamlit.testing.v1 import AppTest

from explorer import library
from explorer.exhibits.block import escape
from explorer.exhibits.decoding import one_pass
from explorer.exhibits.links import State
from explorer.pages import PAGES
from explorer.shell import first_state
from explorer.text import t
from explorer.ui.running import BEAMER

CAUSAL = "causal-off"


def test_a_first_visit_or_a_sentence_leads_to_the_model_that_reads_its_language(open_page, shipped):
    assert first_state("en") == State(lang="en", model="zh-en")
    assert first_state("zh") == State(lang="zh", model="zh-en")
    at = open_page("model", lang="zh", text="I love you.")  # a link without a model means the first
    assert at.selectbox(key="sidebar.model").value == "en-zh"
    at = open_page("model", text="我爱你。", edits=CAUSAL)
    assert t("hints.language", lang="en", reads="English") in everything(at)
    at.button(key="hints.take").click().run()
    assert at.query_params["model"] == "zh-en"
    assert at.query_params["text"] == "我爱你。"
    assert not [each for each in at.button if each.key == "hints.take"]


def test_another_model_keeps_sentence_edits_and_translation_that_it_can_use(open_page, shipped):
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
    part = {"part": "bugs"} if page.name == "cases" else {}
    at = open_page(page.name, edits=f"{CAUSAL}~{fits_nothing}", **part)
    practised = page.name in ("cases", "training", "exercises")
    ignoring = practised or page.name in ("tour", "alignment", "circuits", "card")
    assert (t("shell.unedited", lang="en") in everything(at)) == ignoring


def test_the_causal_mask_says_what_it_is_for_and_shows_what_happens_without(open_page, shipped):
    at = open_page("masks", text="I love you.")
    assert t("masks.purpose", lang="en") in everything(at)
    at.toggle(key="masks.causal").set_value(False).run()
    assert at.query_params["edits"] == CAUSAL
    assert t("masks.twins_lead", lang="en") not in everything(at)
    assert t("masks.newest", lang="en") in everything(at)
    at.selectbox(key="masks.effect").select("twins").run()
    assert t("masks.twins_lead", lang="en") in everything(at)
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


@pytest.mark.parametrize("page", every(3, (page.name for page in PAGES)))
def test_a_class_sees_the_picture_first_and_everything_larger(open_page, page):
    usual, large = open_page(page), open_page(page, beamer="1")
    lead = t(f"{page}.try", lang="en")
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
    elements = [*at.main]  # with all inside them, in order
    sentence = next(i for i, each in enumerate(elements) if "→" in str(getattr(each, "value", "")))
    picture = [each.type for each in elements].index("bidi_component")
    switch = [getattr(each, "key", None) for each in elements].index("masks.causal")
    assert sentence < picture < switch


# What a page says follows from what it shows, for other models and changed masks too.

SHELF = library.CHECKPOINTS
FILL_IN = "She reads a [MASK] every morning."


def test_a_row_with_one_visible_key_has_no_ranking_and_an_encoder_predicts_at_its_tokens(open_page):
    """The start token sees itself alone, with weight 1 in every head; heads matter all the same."""
    place = {"site": "decoder", "layer": "1", "head": "1", "measure": "needed"}
    words = everything(open_page("heads", **place, row="0"))
    equal = t("heads.measured.agree_equal", lang="en")
    assert equal in words
    assert "Correlation with ablation" in words
    words = everything(open_page("heads", **place, row="4"))
    assert equal not in words
    at = open_page(
        "masks", model="reader", text=FILL_IN, edits="pad_keys-off", pads="2", effect="forced"
    )
    words = everything(at)
    assert t("filling.masks.forced", lang="en") in words
    assert t("masks.forced", lang="en") not in words
    (where,) = (each for each in at.selectbox if str(each.key).startswith("masks.next."))
    assert where.label == t("filling.masks.next", lang="en")
    assert where.options[1].startswith("2  ")
    assert not any(option.startswith("<s>") for option in where.options)


def test_a_model_without_a_causal_mask_has_no_switch_for_one(open_page):
    def switches(at: AppTest) -> set[str]:
        return {str(each.key) for kind in (at.toggle, at.slider) for each in kind}

    reader = switches(open_page("masks", model="reader", text=FILL_IN))
    assert "masks.pad_keys" in reader
    assert "masks.window" in reader
    assert not {"masks.causal", "masks.prefix", "masks.cross_pad"} & reader
    assert {"masks.causal", "masks.prefix", "masks.cross_pad"} <= switches(open_page("masks"))


def test_a_prefix_parts_one_pass_from_steps_and_rounding_is_not_called_looking_ahead(
    open_page, monkeypatch
):
    for edits, apart in (("", False), ("prefix-4", True)):
        words = everything(open_page("masks", part="pass", edits=edits))
        assert ("do **not** give the same logits" in words) == apart
        assert ("up to rounding" in words) != apart
        assert ("tokens that did not exist at its step" in words) == apart
    for limit, has_later in (("1", False), ("2", True)):
        words = everything(open_page("masks", part="pass", limit=limit))
        assert ("Without the causal mask, they differ" in words) == has_later
    monkeypatch.setattr(one_pass, "ROUNDING", -1.0)
    words = everything(open_page("masks", part="pass"))
    assert "do **not** give the same logits" in words
    assert "did not exist" not in words
    monkeypatch.setattr(one_pass, "in_half_precision", lambda view: True)
    for edits, apart in (("", False), ("prefix-4", True)):
        words = everything(open_page("masks", part="pass", edits=edits))
        assert ("do **not** give the same logits" in words) == apart


def test_only_a_model_that_writes_has_a_cache(open_page):
    writer = everything(open_page("decoding", part="cache", model="writer", text="I like you."))
    assert t("decoding.cache.lead", lang="en") in writer
    cache = f"'name': '{t('model.costs.cache', lang='en')}'"
    assert cache in str(charts(open_page("model"), "model.memory"))
    read_both_ways = open_page("model", model="reader", text=FILL_IN)
    assert cache not in str(charts(read_both_ways, "model.memory"))
    assert t("model.costs.patterns", lang="en") in str(charts(read_both_ways, "model.memory"))


def test_an_empty_translation_says_why(open_page, shipped):
    assert t("place.nothing", lang="en") not in everything(open_page("heads"))
    at = open_page("heads", model="twin-no-causal", text="Tom loves Mary.")
    assert t("place.nothing", lang="en") in everything(at)
    assert float(filled(at, "place.ended")["probability"].removesuffix(" %")) > 20
