"""Emoji, letters from right to left, unknown letters and markup in a sentence."""

import json
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from shown import figure, link, words_of
from streamlit.testing.v1 import AppTest

from explorer import library
from explorer.exhibits.escape import escape, plain
from explorer.exhibits.saying import reading_notes
from explorer.pages import LESSONS
from explorer.text import t
from models.marks import Marks


def type_text(at: AppTest, text: str) -> AppTest:
    return at.text_area(key="sidebar.text").set_value(text).run()


BOTH_WAYS = "I 🐱 you 👩‍👩‍👧. Ωμέγα ÅÄÖ אני אוהב אותך \u202eabc def"


@pytest.mark.parametrize("page", [page.name for page in LESSONS])
def test_emoji_right_to_left_and_unknown_letters_are_read(open_page, page):
    at = open_page(page, text=BOTH_WAYS, tested="1", guess="true")
    assert not at.warning
    offered = t("patching.none_offered", lang="en") not in [each.value for each in at.info]
    assert at.get("plotly_chart") or at.main.get("bidi_component") or not offered


def test_unknown_characters_are_named(open_page):
    at = type_text(open_page("heads"), "I like 🐱.")
    said = "\n".join(words_of(each) for each in at.caption)
    assert t("place.unknown", lang="en", token=escape("<unk>"), characters="🐱") in said


def test_the_unknown_token_has_the_name_that_the_tokenizer_gives_it():
    tokenizer: Any = SimpleNamespace(piece={3: "[UNK]"}.get, drops=lambda each: False, encoded=list)
    tokenizer.of = lambda stream: tokenizer
    config = SimpleNamespace(picture=None)
    loaded: Any = SimpleNamespace(
        marks=Marks(unknown=3), tokenizer=tokenizer, config=config, reads_pairs=False
    )
    view: Any = SimpleNamespace(t=partial(t, lang="en"), loaded=loaded)
    assert plain(reading_notes(view, "你", ["你"])).endswith("read as [UNK]: 你")


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("The cat sat.", ()),
        ("The cat\n  sat. ", ("folded",)),
        ("The\u202e cat\x07 sat.", ("invisible",)),
    ],
)
def test_what_is_read_other_than_typed_is_said(open_page, text, notes):
    at = open_page("heads", text=text)
    assert at.text_area(key="sidebar.text").value == text
    assert link(at)["text"] == text
    said = "\n".join(words_of(each) for each in at.caption)
    for name, values in (("folded", {}), ("invisible", {"characters": "U+202E U+0007"})):
        assert (t(f"place.{name}", lang="en", **values) in said) == (name in notes)


def test_typed_markup_is_shown_and_never_obeyed(open_page):
    typed = "**you** $x$ <script>alert(1)</script> [a](http://b) :red[c] `d`"
    at = open_page("heads", text=typed)
    line = next(words_of(each) for each in at.markdown if "→" in words_of(each))
    for mark in ("**you", "$x", "<script", "](http", ":red[", "`d"):
        assert mark not in line
    assert "&#60;script&#62;" in line


OUTSIDE = re.compile("[\u0590-\u08ff]")
ARABIC = "ذهب الولد إلى المدرسة. הילד"


SAID = {"heads", "score", "masks", "attribution", "decoding", "positions"} | {
    *("tour", "model", "patching", "alignment", "mask_tests")
}
"""Pages whose sentences name tokens."""


@pytest.fixture(scope="module")
def right_to_left(tmp_path_factory, save_small) -> Path:
    """A writer whose vocabulary has Arabic and Hebrew letters."""
    folder = tmp_path_factory.mktemp("right-to-left")
    words = save_small.__globals__
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(words, "CORPUS", (*words["CORPUS"], ARABIC))
        save_small(folder / "writer", family="decoder-only", norm_placement="pre", final_norm=True)
    return folder


def outside_isolates(text: str) -> str:
    """What of a text runs from right to left and is not isolated from what follows."""
    bare = re.sub("\u2068[^\u2068\u2069]*\u2069", "", text)
    return bare if OUTSIDE.search(bare) else ""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page.name, marks=() if at % 4 == 0 else pytest.mark.sweep)
        for at, page in enumerate(LESSONS)
    ],
)
def test_right_to_left_tokens_are_isolated_in_every_sentence(
    open_page, right_to_left, monkeypatch, page
):
    monkeypatch.setattr(library, "CHECKPOINTS", right_to_left)
    at = open_page(page, model="writer", text=ARABIC, tested="1", guess="true")
    said = [words_of(each) for kind in (at.markdown, at.caption, at.info) for each in kind]
    assert any("\u2068" in words for words in said) == (page in SAID)
    assert [found for words in said if (found := outside_isolates(words))] == []
    drawn = [
        json.dumps(figure(at, n), ensure_ascii=False) for n in range(len(at.get("plotly_chart")))
    ]
    assert [found for each in drawn if (found := outside_isolates(each))] == []
