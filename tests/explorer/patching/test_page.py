"""The Patching page: a second sentence, maps of patches, and what is said of the best one."""

from collections.abc import Iterator
from threading import Event

import numpy as np
from shown import everything, link, panels, with_titles, words_of
from streamlit.testing.v1 import AppTest

from explorer.analysis.patching.maps import DRAWS, Map
from explorer.engine import runs as engine
from explorer.exhibits.patching.names import said as share
from explorer.text import t
from explorer.ui import running

FIRST = "She reads a book every morning."


def says(at: AppTest, key: str, lang: str = "en", **values: object) -> bool:
    return t(f"patching.{key}", lang=lang, **values) in everything(at)


def test_what_needs_the_second_sentence_is_not_drawn_before_it(open_page, monkeypatch):
    found = Event()

    def searching(*_: object) -> Iterator[tuple[int, int]]:
        yield 0, 1
        found.wait(2)

    monkeypatch.setattr(running, "PATIENCE", 0.1)
    monkeypatch.setattr(engine, "other_text", searching)
    at = open_page("patching", text=FIRST)
    assert at.get("progress")
    at.text_input(key="patching.second").set_value("We went.").run()
    assert link(at)["second"] == "We went."
    found.set()


def test_a_slow_map_is_computed_only_when_asked_for(open_page, monkeypatch):
    monkeypatch.setattr("explorer.exhibits.patching.map.AT_ONCE", 0)
    at = open_page("patching", text=FIRST, what="z")
    assert not panels(at)
    at.button(key="patching.run").click().run()
    assert panels(at, "patching.map")
    at.selectbox(key="patching.what").set_value("v").run()
    assert not panels(at)
    assert at.button(key="patching.run").label == t("patching.run", lang="en")


def test_a_second_sentence_is_offered_and_a_link_opens_one_patch(open_page):
    asked = {"text": FIRST, "second": "We went to the park yesterday.", "what": "z"}
    asked |= {"cell": "cross-2-3"}
    at = open_page("patching", **asked)
    assert "Patched run: " in with_titles(at)
    selected = {each["title"]: each["selected"] for each in panels(at, "patching.map")}
    assert selected[t("kinds.cross", lang="en")] == [1, 2]
    at.segmented_control(key="patching.into").set_value("first").run()
    assert link(at) | {"into": "first", **asked} == link(at)
    at.selectbox(key="patching.what").set_value("pattern").run()
    assert link(at)["what"] == "pattern"
    at = open_page("patching", text=FIRST)
    assert at.text_input(key="patching.second").value
    assert "recovers" in everything(at)
    assert [each["rows"]["tokens"][0] for each in panels(at, "patching.map")] == ["0", "0"]
    assert any("patched" in words_of(each) for each in at.markdown)


def test_sentences_of_different_length_are_aligned_and_say_what_is_compared(open_page):
    at = open_page("patching", text=FIRST, second="We went.", what="pattern")
    assert "have a counterpart" in everything(at)
    assert says(at, "no_pattern")
    assert at.selectbox(key="patching.what").value == "resid"
    box = at.text_input(key="patching.align")
    box.set_value("0-0 1-1").run()
    assert link(at)["align"] == "0-0_1-1"
    at.text_input(key="patching.align").set_value("nonsense").run()
    assert link(at)["align"] == "0-0_1-1"
    assert at.text_input(key="patching.align").value == "0-0 1-1"
    at.button(key="patching.align_again").click().run()
    assert "align" not in link(at)


def test_an_alignment_that_leaves_nothing_and_an_unreadable_sentence_say_so(open_page):
    at = open_page("patching", model="writer", text=FIRST, second="We went.", align="300-300")
    assert t("problems.nothing_aligned", lang="en") in everything(at)
    at.button(key="patching.align_again").click().run()
    assert panels(at, "patching.map")
    at = open_page("patching", text=FIRST, second="a" * 7000)
    assert "limit" in everything(at)
    at = open_page("patching", text=FIRST, second="He reads Ω every morning.")
    assert "Ω" in everything(at)


def test_runs_that_answer_alike_say_that_nothing_can_come_back(open_page):
    at = open_page("patching", text=FIRST, second=FIRST)
    assert "no difference to recover" in everything(at)


def test_masked_words_are_asked_at_the_mask(open_page):
    text = "She reads a [MASK] every morning."
    at = open_page("patching", model="reader", text=text, second=text.replace("She", "He"))
    assert len(at.selectbox(key="patching.question").options) == 1


def test_heads_that_share_keys_and_values_are_named_as_patched_together(
    open_page, save_small, shelf
):
    save_small(shelf / "grouped", family="decoder-only", n_kv_heads=1)
    for what in ("v", "q"):
        at = open_page("patching", model="grouped", text=FIRST, second="We went.", what=what)
        assert says(at, "shared") == (what == "v")
    assert not says(open_page("patching", model="writer", text=FIRST, what="v"), "shared")


def test_without_a_counterpart_away_from_the_output_nothing_is_said_of_one(open_page, shipped):
    start, end = "Once upon a time there was a", "who liked the"
    asked = {"text": f"{start} girl {end}", "second": f"{start} cat {end}", "align": "11-11"}
    words = everything(open_page("patching", model="stories", **asked))
    assert "At the output position, the residual stream recovers" in words
    assert "Away from the output position" not in words


def test_what_misplaced_activations_do_too_is_no_more_than_chance(open_page, monkeypatch):
    """47 % +- 136 of the control stood below a claim that did not know of it."""
    for most, key in ((0.01, "above_chance"), (7.0, "within_chance")):
        drawn = np.full((DRAWS, 1), most)
        monkeypatch.setattr(Map, "misplaced", property(lambda _, drawn=drawn: drawn))
        at = open_page("patching", model="en-zh", text=FIRST, what="z")
        assert says(at, key, most=share(most), draws=DRAWS)


def test_the_words_that_carry_the_answer_are_named_or_the_layers_that_do(open_page, shipped):
    """No embedding recovers half, but a later vector recovers 75 %."""
    text, second = "He bought strawberries yesterday.", "He bought cucumbers yesterday."
    words = everything(open_page("patching", model="en-zh", text=text, second=second))
    assert "recovers **75 %** of the logit difference" in words
    assert "one vector recovers at most" not in words
    # The answer of the first sentence comes from its word, not from the one that it replaces.
    text, second = "She reads a book every morning.", "He reads a book every morning."
    words = everything(open_page("patching", model="en-zh", text=text, second=second))
    assert "“She→He”: patched alone" in words


def test_what_may_be_chance_and_a_third_token_that_wins_are_named(open_page, shipped):
    asked = {"text": "My grandmother is old.", "second": "My grandfather is old."}
    words = everything(open_page("patching", model="en-zh", **asked))
    assert "This may be chance" in words
    assert "above chance" not in words
    words = everything(open_page("patching", model="reader", text="hello", second="yello"))
    before, after = t("patching.third", lang="en", token="~", share="~").split("~ (~)")
    assert words.partition(before)[2].partition(after)[0] == "“J” (78 %)"
