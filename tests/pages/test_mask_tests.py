"""The Mask tests page: it waits for a click, follows the sentence, and says what breaks."""

from shown import everything, panels, reading, words_of

from explorer.text import t


def test_the_certificate_of_one_text_names_no_target(open_page):
    for model, name in (("writer", "text"), ("translator", "tgt")):
        at = open_page("mask_tests", model=model, tested="1", text="a b c")
        titles = {each[side]["title"] for each in panels(at) for side in ("rows", "columns")}
        named = {
            t(f"mask_tests.{what}", lang="en", stream=t(f"streams.{stream}", lang="en"))
            for what in ("moved", "changed")
            for stream in ((name,) if name == "text" else ("src", "tgt"))
        }
        assert titles == named


def test_the_certificate_waits_for_a_click_and_then_keeps_up(open_page):
    at = open_page("mask_tests")
    assert not at.main.get("bidi_component")
    assert t("certify.future_leak.title", lang="en") in everything(at)
    at.button(key="mask_tests.run").click().run()
    assert "All 14 properties" in reading(at, "Largest deviation")
    assert at.query_params["tested"] == "1"
    assert len(at.main.get("bidi_component")) == 3
    at.pills(key="sidebar.example.first").select("We went to the park yesterday.").run()
    assert "All 14 properties" in reading(at, "Largest deviation")


def test_the_certificate_of_changed_masks_says_what_breaks_and_where(open_page):
    at = open_page("mask_tests", tested="1", edits="causal-off~head-decoder.blocks.0.attn-1")
    assert "**3** of 13 properties" in reading(at, "Largest deviation")
    assert t("certify.future_mass.broken", lang="en") in everything(at)
    where = next(
        words_of(each) for each in at.caption if "Decoder self-attention · layer" in each.value
    )
    assert "allowed 10⁻⁸" in where
    assert "query “" in where
    at.button(key="mask_tests.reset").click().run()
    assert "All 14 properties" in reading(at, "Largest deviation")
    assert "edits" not in at.query_params
