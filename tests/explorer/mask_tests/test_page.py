"""The Mask tests page: what is asked, and what breaks where."""

import pytest
from shown import everything, panels, reading, words_of

from explorer.text import t


def test_the_certificate_waits_for_a_click_and_then_keeps_up(open_page):
    at = open_page("mask_tests")
    assert not at.main.get("bidi_component")
    assert t("certify.future_leak.title", lang="en") not in everything(at)
    at.button(key="mask_tests.run").click().run()
    assert "All 16 tested properties" in reading(at, "properties")
    assert at.query_params["tested"] == "1"
    assert all(panels(at, f"mask_tests.reach.{name}") for name in ("encoder", "decoder", "cross"))
    at.pills(key="sidebar.example.first").select("We went to the park yesterday.").run()
    assert "All 16 tested properties" in reading(at, "properties")


def test_the_certificate_of_changed_masks_says_what_breaks_and_where(open_page):
    at = open_page("mask_tests", tested="1", edits="causal-off~head-decoder.blocks.0.attn-1")
    assert "3 of 15 tested properties" in reading(at, "properties")
    assert t("certify.future_mass.broken", lang="en") in everything(at)
    where = next(
        words_of(each) for each in at.caption if "Decoder self-attention · layer" in each.value
    )
    assert "allowed 10⁻⁸" in where
    assert "query “" in where
    at.button(key="mask_tests.reset").click().run()
    assert "All 16 tested properties" in reading(at, "properties")
    assert "edits" not in at.query_params


@pytest.mark.parametrize("tested", [{}, {"tested": "1"}])
def test_the_number_of_mask_properties_explains_itself(open_page, tested):
    words = everything(
        open_page("mask_tests", model="reader", text="She reads a [MASK] every morning.", **tested)
    )
    assert words.count("Not tested: ") == 16 - 11
    for name in ("uncached", "no_cross", "both_ways"):
        assert (t(f"certify.left_out.{name}", lang="en") in words) == (name != "uncached")
    assert ("11 tested properties" in words) == bool(tested)
