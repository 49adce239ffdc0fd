"""The sentence and its target; one that cannot be read, and the last good picture."""

import pytest
from shown import everything, messages, reading, words_of
from streamlit.testing.v1 import AppTest

from explorer.pages import LESSONS
from explorer.text import LANGUAGES, t


def type_text(at: AppTest, text: str) -> AppTest:
    return at.text_area(key="sidebar.text").set_value(text).run()


def spec(at: AppTest) -> bytes:
    """What the picture of all heads was sent."""
    data: bytes = at.main.get("bidi_component")[0].proto.bytes
    return data


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize(
    ("text", "key", "values"),
    [
        ("", "empty", {}),
        (" \n\t ", "whitespace_only", {}),
        ("\x00\x1b\x7f", "nothing_left", {}),
        ("a" * 6001, "too_long_chars", {"limit": "6,000", "length": "6,001"}),
        ("you are kind " * 40, "too_many_tokens", {"limit": "64", "length": "121"}),
    ],
)
def test_a_refused_sentence_keeps_the_last_good_picture(open_page, lang, text, key, values):
    at = type_text(open_page("heads", lang=lang), "We went to the park.")
    picture, link = spec(at), dict(at.query_params)
    type_text(at, text)
    assert messages(at) == t(f"problems.{key}", lang=lang, **values)
    assert spec(at) == picture
    assert dict(at.query_params) == link  # the address still leads to what is shown
    named = t("shell.last_good", lang=lang, text="We went to the park&#46;")
    assert [words_of(each) for each in at.caption].count(named) == 1
    type_text(at, "I like you.")
    assert not at.warning
    assert "I like you" in everything(at)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page.name, marks=() if at % 4 == 0 else pytest.mark.sweep)
        for at, page in enumerate(LESSONS)
    ],
)
def test_a_refused_sentence_in_a_link_leaves_an_example(open_page, page):
    at = open_page(page, text=" ", lang="zh", tested="1", guess="true")
    assert messages(at) == t("problems.whitespace_only", lang="zh")
    assert at.get("plotly_chart") or at.main.get("bidi_component")


def test_controls_still_work_on_the_last_good_picture(open_page):
    at = type_text(open_page("heads", site="cross", layer="1", head="1"), "")
    before = spec(at)
    at.segmented_control(key="heads.kind").set_value("encoder").run()
    assert spec(at) != before
    assert at.segmented_control(key="heads.kind").value == "encoder"


def test_an_example_goes_into_the_link_and_an_own_translation_is_read_instead(open_page):
    at = open_page("heads")
    at.pills(key="sidebar.example.first").select("We went to the park yesterday.").run()
    assert "We went to the park yesterday" in reading(at, "→")
    assert at.text_area(key="sidebar.text").value == "We went to the park yesterday."
    assert at.query_params["text"] == "We went to the park yesterday."
    at.text_area(key="sidebar.target").set_value("我喜欢你").run()
    assert ":orange[我喜欢你]" in reading(at, "→")
    assert "(given text, teacher forcing)" in reading(at, "→")
    assert at.query_params["target"] == "我喜欢你"


def test_a_story_teller_is_given_a_continuation_and_a_translator_a_translation(open_page):
    for model, words in (("translator", "target"), ("writer", "continuation")):
        area = open_page("heads", model=model).text_area(key="sidebar.target")
        assert area.label == t(f"sidebar.{words}", lang="en")
        assert area.placeholder == t(f"sidebar.{words}_hint", lang="en")
        assert area.help == t(f"sidebar.{words}_help", lang="en")


def test_an_own_continuation_stands_behind_the_text_with_its_marks_escaped(open_page):
    at = open_page("heads", model="writer", text="the fox", target="likes *the* dog")
    line = reading(at, ":green[the fox]")
    assert line.startswith(":green[the fox] **:orange[likes &#42;the&#42; dog]** (")
    assert ":orange" not in reading(open_page("heads", model="writer", text="the fox"), "the fox")
