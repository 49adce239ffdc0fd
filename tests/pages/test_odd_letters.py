"""Emoji, letters from right to left, unknown letters and markup in a sentence."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from shown import Open
from streamlit.testing.v1 import AppTest

from explorer.exhibits.escape import escape, plain
from explorer.pages import LESSONS
from explorer.text import t
from explorer.ui.controls import unknown_words
from models.marks import Marks


def type_text(at: AppTest, text: str) -> AppTest:
    return at.text_area(key="sidebar.text").set_value(text).run()


LEFT_TO_RIGHT = "I 🐱 you 👩‍👩‍👧. Ωμέγα ÅÄÖ"
RIGHT_TO_LEFT = "אני אוהב אותך \u202eabc def"


@pytest.mark.parametrize("text", [LEFT_TO_RIGHT, RIGHT_TO_LEFT])
@pytest.mark.parametrize("page", [page.name for page in LESSONS])
def test_emoji_right_to_left_and_unknown_letters_are_read(
    open_page: Open, page: str, text: str
) -> None:
    at = open_page(page, text=text, tested="1", guess="true")
    assert not at.exception
    assert not at.warning
    offered = t("patching.none_offered", lang="en") not in [each.value for each in at.info]
    assert at.get("plotly_chart") or at.main.get("bidi_component") or not offered


def test_unknown_characters_are_named(open_page: Open) -> None:
    at = type_text(open_page("heads"), "I like 🐱.")
    said = "\n".join(str(each.value) for each in at.caption)
    assert t("place.unknown", lang="en", token=escape("<unk>"), characters="🐱") in said


def test_the_unknown_token_has_the_name_that_the_tokenizer_gives_it() -> None:
    tokenizer = SimpleNamespace(piece={3: "[UNK]"}.get)
    loaded: Any = SimpleNamespace(marks=Marks(unknown=3), tokenizer=tokenizer)
    view: Any = SimpleNamespace(t=partial(t, lang="en"))
    assert plain(unknown_words(view, loaded, ["你"])).endswith("read as [UNK]: 你")


def test_typed_markup_is_shown_and_never_obeyed(open_page: Open) -> None:
    typed = "**you** $x$ <script>alert(1)</script> [a](http://b) :red[c] `d`"
    at = open_page("heads", text=typed)
    assert not at.exception
    line = next(str(each.value) for each in at.markdown if "→" in str(each.value))
    for mark in ("**you", "$x", "<script", "](http", ":red[", "`d"):
        assert mark not in line
    assert "&#60;script&#62;" in line
