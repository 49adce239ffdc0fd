"""A sentence that cannot be read: why, and the last good picture stays."""

import pytest
from shown import Open, words_of
from streamlit.testing.v1 import AppTest

from explorer.pages import LESSONS
from explorer.text import LANGUAGES, t


def type_text(at: AppTest, text: str) -> AppTest:
    return at.text_area(key="sidebar.text").set_value(text).run()


def messages(at: AppTest) -> str:
    return "\n".join(str(each.value) for each in at.warning)


def shown(at: AppTest) -> str:
    return "\n".join(words_of(each) for each in at.markdown)


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
def test_a_refused_sentence_keeps_the_last_good_picture(
    open_page: Open, lang: str, text: str, key: str, values: dict[str, str]
) -> None:
    at = type_text(open_page("heads", lang=lang), "We went to the park.")
    picture, link = spec(at), dict(at.query_params)
    type_text(at, text)
    assert not at.exception
    assert messages(at) == t(f"problems.{key}", lang=lang, **values)
    assert spec(at) == picture
    assert dict(at.query_params) == link  # the address still leads to what is shown
    named = t("shell.last_good", lang=lang, text="We went to the park&#46;")
    assert [words_of(each) for each in at.caption].count(named) == 1
    type_text(at, "I like you.")
    assert not at.warning
    assert "I like you" in shown(at)


@pytest.mark.parametrize("page", [page.name for page in LESSONS])
def test_a_refused_sentence_in_a_link_leaves_an_example(open_page: Open, page: str) -> None:
    at = open_page(page, text=" ", lang="zh", tested="1", guess="true")
    assert not at.exception
    assert messages(at) == t("problems.whitespace_only", lang="zh")
    assert at.get("plotly_chart") or at.main.get("bidi_component")


def test_controls_still_work_on_the_last_good_picture(open_page: Open) -> None:
    at = type_text(open_page("heads", site="cross", layer="1", head="1"), "")
    before = spec(at)
    at.segmented_control(key="heads.kind").set_value("encoder").run()
    assert not at.exception
    assert spec(at) != before
    assert at.segmented_control(key="heads.kind").value == "encoder"
