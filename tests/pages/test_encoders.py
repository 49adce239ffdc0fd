"""Encoders alone, with a head and without: what they are asked, every pitfall and quick claim."""

import re

import pytest
from shown import everything, unlinked, words_of

from explorer.analysis.bugs import PITFALLS
from explorer.analysis.claims import CLAIMS
from explorer.text import LANGUAGES, has, t

TEXT = "She reads a [MASK] every morning."
sweep = pytest.mark.sweep


def test_what_a_model_that_fills_in_is_asked(open_page):
    """Its words are about the token at a place, not about the next one."""
    at = open_page("heads", model="reader", text=TEXT, row="4")
    words = " ".join(words_of(each) for each in at.markdown)
    assert "where the model predicts" in words or "predicts" in words
    assert "before predicting" not in words
    at = open_page("decoding", model="reader", text=TEXT)
    assert t("filling.decoding.lead", lang="en") in [words_of(each) for each in at.markdown]
    shown = [each.key for each in at.segmented_control]
    assert "decoding.part" not in shown  # no part has a picture


def test_without_a_mask_there_is_nothing_to_decode_and_the_page_says_so(open_page):
    for model, problem in (("reader", "nothing_to_fill"), ("headless", "no_logits")):
        at = open_page("decoding", model=model, text="She reads a book.")
        shown = [str(each.value) for each in (*at.error, *at.warning)]
        assert any(t(f"problems.{problem}", lang="en") in each for each in shown), shown


def test_a_model_without_an_output_is_not_asked_for_more_words(open_page):
    """No word that a visitor adds would give it one."""
    at = open_page("heads", model="headless", text=TEXT)
    said = [unlinked(each.value) for each in at.caption]
    assert t("matter.no_logits", lang="en") in said
    assert t("matter.nothing", lang="en") not in said


@pytest.mark.parametrize("page", ["masks", "decoding", "attribution", "circuits", "bugs"])
def test_a_model_without_an_output_is_not_said_to_write(open_page, page):
    words = everything(open_page(page, model="headless"))
    for part in ("lead", "try"):
        own = f"silent.{page}.{part}"
        if has(own, lang="en"):
            assert t(own, lang="en") in words
            assert t(f"{page}.{part}", lang="en") not in words
    false = r"before it generates|generates \*\*one token|it can predict the second half"
    assert not re.search(false, words)


def in_turn(cases, always=lambda case: False):
    """Each of these for one of the two encoders, in turn; for both only in the sweep."""
    return [
        pytest.param(case, model, marks=() if always(case) or at % 2 == turn else sweep)
        for at, case in enumerate(cases)
        for turn, model in enumerate(("reader", "headless"))
    ]


@pytest.mark.parametrize(
    ("pitfall", "model"), in_turn(PITFALLS, lambda pitfall: pitfall.needs == "causal")
)
def test_every_pitfall_opens_and_a_causal_bug_is_none_of_a_model_that_reads_both_ways(
    open_page, pitfall, model
):
    words = everything(open_page("bugs", model=model, text=TEXT, case=pitfall.id))
    if pitfall.needs == "causal":
        assert t("bugs.absent.causal", lang="en") in words
        assert t("bugs.fixed", lang="en") in words
        for key in ("bugs.unchanged", "filling.bugs.unchanged", "bugs.vectors_same"):
            assert t(key, lang="en") not in words


@pytest.mark.parametrize(
    ("claim", "model"),
    in_turn([each.id for each in CLAIMS if each.own and (not each.slow or each.id == "parallel")]),
)
def test_every_quick_claim_opens(open_page, claim, model):
    open_page("claims", model=model, text=TEXT, claim=claim, guess="true")


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("case", ["model_scale", "small_fill", "inverted_padding"])
def test_without_an_output_layer_the_vectors_are_compared(open_page, case, lang):
    """There are no words and no loss of which "nothing changes" could be said."""
    words = everything(open_page("bugs", model="headless", text=TEXT, case=case, lang=lang))
    for key in ("bugs.unchanged", "filling.bugs.unchanged"):
        assert t(key, lang=lang) not in words
    same = t("bugs.vectors_same", lang=lang) in words
    before, after = re.escape(t("bugs.vectors_moved", lang=lang, moved="@")).split("@")
    assert bool(re.search(rf"{before}[\d.]+ %{after}", words)) == (case != "small_fill")
    assert same == (case == "small_fill")
