"""What a page says follows from what it shows, for other models and changed masks too."""

import json

import numpy as np
import pytest
from shown import everything, panels
from streamlit.testing.v1 import AppTest

from explorer import library
from explorer.exhibits.decoding import one_pass
from explorer.exhibits.positions import length as positions_length, order
from explorer.text import LANGUAGES, t

SHELF = library.CHECKPOINTS
FILL_IN = "She reads a [MASK] every morning."


@pytest.mark.parametrize(("model", "limit"), [("en-zh", 64), ("twin-right", 64), ("copy", 32)])
def test_the_room_for_a_sentence_is_that_of_the_model(open_page, monkeypatch, model, limit):
    if model != "en-zh":
        monkeypatch.setattr(library, "CHECKPOINTS", SHELF)
    at = open_page("masks", model=model)
    assert f"and {limit} tokens, including" in at.text_area(key="sidebar.text").help


def test_a_bias_of_the_positions_stands_in_the_formula_of_attention(open_page):
    for model, biased in (("en-zh", False), ("reader", True)):
        at = open_page("heads", model=model, **({"text": FILL_IN} if biased else {}))
        at.segmented_control(key="heads.more").set_value("formula").run()
        assert any("+ B" in str(line.value) for line in at.latex) == biased


def test_a_row_with_one_visible_key_has_no_ranking_by_weight(open_page):
    """The start token sees itself alone, with weight 1 in every head; heads matter all the same."""
    words = everything(open_page("heads", site="decoder", layer="1", head="1", row="0"))
    assert "have the same largest weight" in words
    assert t("measured.agree_unknown", lang="en") not in words
    assert "correlation with the ranking" in words
    words = everything(open_page("heads", site="decoder", layer="1", head="1", row="4"))
    assert "have the same largest weight" not in words


def test_a_model_without_a_causal_mask_has_no_switch_for_one(open_page):
    def switches(at: AppTest) -> set[str]:
        return {str(each.key) for kind in (at.toggle, at.slider) for each in kind}

    reader = switches(open_page("masks", model="reader", text=FILL_IN))
    assert "masks.pad_keys" in reader
    assert "masks.window" in reader
    assert not {"masks.causal", "masks.prefix", "masks.cross_pad"} & reader
    assert {"masks.causal", "masks.prefix", "masks.cross_pad"} <= switches(open_page("masks"))


def test_changed_masks_that_know_the_order_are_not_called_rounding(open_page):
    plain = everything(open_page("positions", part="order"))
    assert "which is rounding" in plain
    assert t("positions.texts_same", lang="en") in plain
    changed = everything(open_page("positions", part="order", edits="window-2"))
    assert "the remaining masks also depend on the order" in changed
    assert "which is rounding" not in changed
    assert t("positions.texts_same", lang="en") not in changed


def test_a_shift_that_lowers_the_loss_is_told_as_one(open_page, monkeypatch):
    monkeypatch.setattr(
        positions_length,
        "shift_losses",
        lambda loaded, trace, stream, shifts: np.linspace(2.0, 1.0, len(shifts)),
    )
    assert "the loss goes from **2.00** to **1.00**" in everything(
        open_page("positions", part="length")
    )


def test_a_prefix_seen_by_all_parts_one_pass_from_step_by_step(open_page):
    for edits, apart in (("", False), ("prefix-4", True)):
        words = everything(open_page("decoding", part="pass", edits=edits))
        assert ("do **not** give the same logits" in words) == apart
        assert ("which is rounding" in words) != apart
        assert ("tokens that did not exist at its step" in words) == apart


def test_rounding_in_half_precision_is_not_called_looking_ahead(open_page, monkeypatch):
    monkeypatch.setattr(one_pass, "ROUNDING", -1.0)
    words = everything(open_page("decoding", part="pass"))
    assert "do **not** give the same logits" in words
    assert "did not exist" not in words
    monkeypatch.setattr(order, "ROUNDING", -1.0)
    for page, told in (({}, False), ({"edits": "window-2"}, True)):
        words = everything(open_page("positions", **page))
        assert ("the remaining masks also depend on the order" in words) == told
        assert ("which is rounding" in words) != told


def test_only_a_model_with_a_source_caches_one(open_page):
    source = t("caching.source", lang="en")
    assert source in everything(open_page("decoding", part="cache"))
    writer = everything(open_page("decoding", part="cache", model="writer", text="I like you."))
    assert t("caching.lead", lang="en") in writer
    assert source not in writer


def test_vectors_that_a_model_does_not_add_are_not_measured_in_it(open_page):
    case = {"case": "batch_positions"}
    own, fixed = (t(f"cases.{name}", lang="en") for name in ("own", "fixed"))
    assert own in everything(open_page("cases", **case))
    assert fixed in everything(open_page("cases", model="reader", text=FILL_IN, **case))


@pytest.mark.parametrize(
    ("params", "count", "why"),
    [
        ({}, 14, ()),
        ({"edits": "causal-off"}, 13, ("uncached",)),
        ({"model": "writer", "text": "I like you."}, 13, ("no_cross",)),
        ({"model": "reader", "text": FILL_IN}, 9, ("both_ways", "no_cross")),
    ],
)
def test_the_number_of_mask_properties_explains_itself(open_page, params, count, why):
    for tested in ({}, {"tested": "1"}):
        at = open_page("mask_tests", **params, **tested)
        words = everything(at)
        assert words.count("Not tested: ") == 14 - count
        for name in ("uncached", "no_cross", "both_ways"):
            assert (t(f"certify.left_out.{name}", lang="en") in words) == (name in why)
    assert f"{count} properties" in words


def test_an_empty_translation_says_why(open_page, shipped):
    assert "The translation is empty" not in everything(open_page("heads"))
    words = everything(open_page("heads", model="twin-no-causal", text="Tom loves Mary."))
    assert t("place.nothing", lang="en") in words
    share = words.split("with probability ")[1].split(" %")[0]
    assert float(share) > 20
    assert "does not stand for" not in words


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_twin_says_how_it_was_trained_and_how_it_runs(open_page, shipped, lang):
    link = {"text": "Tom loves Mary.", "lang": lang}
    trained, right, changed = (
        t(f"trained.{key}", lang=lang) for key in ("twin-no-causal", "right", "changed")
    )
    words = everything(open_page("heads", model="twin-no-causal", **link))
    assert f"{trained} {right}" in words
    words = everything(open_page("heads", model="twin-no-causal", edits="causal-off", **link))
    assert f"{trained} {changed}" in words
    assert trained not in everything(open_page("heads", model="twin-right", **link))


def test_each_matrix_of_masks_has_a_name_of_its_own(open_page):
    for page, params in (("masks", {}), ("mask_tests", {"tested": "1"})):
        at = open_page(page, **params)
        names = [each["title"] for each in panels(at) if each["scale"] is None]
        assert len(names) == len(set(names)) == 3
        assert all(names)


def test_the_squares_behind_the_heads_are_explained(open_page):
    rollout, cross, flow = (
        t(f"heads.{name}_note", lang="en") for name in ("rollout", "rollout_cross", "flow")
    )
    words = everything(open_page("heads", site="encoder"))
    assert rollout in words
    assert flow in words
    words = everything(open_page("heads", site="cross"))
    assert cross in words
    assert flow not in words


def test_an_encoder_is_not_said_to_have_nothing_left_to_write_with(open_page):
    case = {"case": "inverted_padding", "model": "reader", "text": FILL_IN}
    words = everything(open_page("cases", **case))
    assert t("cases.writes", lang="en") not in words
    assert t("cases.writes_nothing", lang="en") not in words


def test_an_encoder_is_asked_for_predictions_at_its_tokens(open_page):
    at = open_page("masks", model="reader", text=FILL_IN, edits="pad_keys-off", pads="2")
    words = everything(at)
    assert t("filling.masks.forced", lang="en") in words
    assert t("masks.forced", lang="en") not in words
    (where,) = (each for each in at.selectbox if str(each.key).startswith("masks.next."))
    assert where.label == t("filling.masks.next", lang="en")
    assert where.options[1].startswith("2  ")
    assert not any(option.startswith("<s>") for option in where.options)


def test_only_a_model_that_writes_has_a_cache_to_keep(open_page):
    def names(**link: str) -> set[str]:
        charts = open_page("model", **link).get("plotly_chart")
        return {
            each.get("name", "")
            for chart in charts
            for each in json.loads(chart.proto.spec)["data"]
        }

    cache = t("model.cache", lang="en")
    assert cache in names()
    read_both_ways = names(model="reader", text=FILL_IN)
    assert cache not in read_both_ways
    assert t("model.patterns", lang="en") in read_both_ways
