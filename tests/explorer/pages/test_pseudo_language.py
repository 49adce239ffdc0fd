"""The app in a language whose words are all marked: one without a mark is not in the text files."""

import re

import pytest
from cores import core
from pseudo import pseudo
from shown import READS, WHOLE, charts, with_titles
from streamlit.testing.v1 import AppTest

from explorer import text
from explorer.engine import cache
from explorer.pages import PAGES

OWN_FILES = ("exercises", "card")
"""Pages whose words are in files of their own: `assets/exercises`, the model's card."""
USUAL = ("heads", "masks", "decoding", "patching")
NAMES = {"Headlight", "English", "Language", "AdamW", "SGD", "Muon"}
NAMES |= {"PNG", "JSON", "CSV", "Moses", "MiB", "GFLOP"}
LETTERS = re.compile(r"[A-Za-z]{3,}")
MARKUP = re.compile(r"\$[^$]*\$|`[^`]*`|\w*_\w+|:material/\w+:|:\w+\[|\]\([^)]*\)|⟦[^⟦⟧]*⟧")
"""Formulas, code, icons, colours, addresses, and marked words."""


def seen(at: AppTest) -> list[str]:
    """What is read on a page: text, titles, controls and their options, the words of charts."""
    words = [with_titles(at)]
    for kind in ("button", "selectbox", "toggle", "slider", "text_input", "segmented_control"):
        for control in at.get(kind):
            words += [control.label, *map(str, getattr(control, "options", ()))]
    for figure in charts(at):
        words += [str(trace.get("name", "")) for trace in figure["data"]]
        axes = (value for name, value in figure["layout"].items() if name[1:5] == "axis")
        words += [str(axis.get("title", {}).get("text", "")) for axis in axes]
    return [re.sub(r"&#(\d+);", lambda code: chr(int(code[1])), each) for each in words]


@pytest.mark.parametrize(
    "page", core([page.name for page in PAGES if page.name not in OWN_FILES], USUAL)
)
def test_every_word_is_in_the_text_files(open_page, monkeypatch, page):
    english = {key: pseudo(words) for key, words in text.words("en").items()}
    monkeypatch.setattr(text, "words", lambda lang: english)
    monkeypatch.setattr(text, "_tables", text._tables.__wrapped__)
    texts = seen(open_page(page, **READS | WHOLE.get(page, {})))
    assert sum("⟦" in words for words in texts) > 10
    loaded = cache.open_model("en-zh")
    tokens = loaded.str_tokens(range(loaded.config.vocab_size))
    sentences = [each for group in text.examples("en-zh").values() for each in group]
    known = " ".join((READS["text"], *tokens, *cache.models(), *sentences))
    left = {word for words in texts for word in LETTERS.findall(MARKUP.sub(" ", words))}
    assert {word for word in left if word not in known} <= NAMES
