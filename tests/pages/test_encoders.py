"""Every part for encoders alone: one that fills in masked words, one without a head."""

import re

import pytest
from shown import Open, everything, unlinked, words_of

from explorer.pages import PAGES
from explorer.text import has, t

TEXT = "She reads a [MASK] every morning."


PARTS = [(page.name, "part", part) for page in PAGES for part in getattr(page.choices, "parts", ())]


ASIDES = [
    ("cell", "aside", aside)
    for aside in ("scaling", "initial", "split", "raw", "layouts", "groups", "dropout")
]


OTHERS = [
    ("certificate", "tested", "1"),
    ("masks", "edits", "pad_keys-off"),
    ("heads", "measure", "needed"),
    ("heads", "edits", "head-blocks.0.attn-1"),
]


@pytest.mark.parametrize(("page", "name", "value"), [*PARTS, *ASIDES, *OTHERS])
def test_each_part_opens(open_page: Open, page: str, name: str, value: str) -> None:
    at = open_page(page, model="reader", text=TEXT, **{name: value})
    assert not at.exception
    assert not at.error


def test_what_a_model_that_fills_in_is_asked(open_page: Open) -> None:
    """Its words are about the token at a place, not about the next one."""
    at = open_page("heads", model="reader", text=TEXT, row="4")
    words = " ".join(words_of(each) for each in at.markdown)
    assert "where the model predicts" in words or "predicts" in words
    assert "before predicting" not in words
    at = open_page("decoding", model="reader", text=TEXT)
    assert t("filling.decoding.lead", lang="en") in [words_of(each) for each in at.markdown]
    assert "decoding.part" not in [
        each.key for each in at.segmented_control
    ]  # no part has a picture


def test_without_a_mask_there_is_nothing_to_decode_and_the_page_says_so(open_page: Open) -> None:
    for model, problem in (("reader", "nothing_to_fill"), ("headless", "no_logits")):
        at = open_page("decoding", model=model, text="She reads a book.")
        assert not at.exception
        shown = [str(each.value) for each in (*at.error, *at.warning)]
        assert any(t(f"problems.{problem}", lang="en") in each for each in shown), shown


def test_a_model_without_an_output_is_not_asked_for_more_words(open_page: Open) -> None:
    """No word that a visitor adds would give it one."""
    at = open_page("heads", model="headless", text=TEXT)
    said = [unlinked(each.value) for each in at.caption]
    assert t("matter.no_logits", lang="en") in said
    assert t("matter.nothing", lang="en") not in said


@pytest.mark.parametrize("page", ["masks", "decoding", "causes", "circuits", "clinic"])
def test_a_model_without_an_output_is_not_said_to_write(open_page: Open, page: str) -> None:
    words = everything(open_page(page, model="headless"))
    for part in ("lead", "try"):
        own = f"silent.{page}.{part}"
        if has(own, lang="en"):
            assert t(own, lang="en") in words
            assert t(f"{page}.{part}", lang="en") not in words
    false = r"before it generates|generates \*\*one token|whatever it predicts"
    assert not re.search(false, words)
