"""Every part, pitfall and quick claim for encoders alone, with a head and without."""

import re

import pytest
from shown import Open, everything, unlinked, words_of

from explorer.analysis.claims import CLAIMS
from explorer.analysis.clinic import PITFALLS
from explorer.pages import PAGES
from explorer.text import LANGUAGES, has, t

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
    false = r"before it generates|generates \*\*one token|it can predict the second half"
    assert not re.search(false, words)


@pytest.mark.parametrize("model", ["reader", "headless"])
def test_every_pitfall_and_every_quick_claim_opens(open_page: Open, model: str) -> None:
    for pitfall in PITFALLS:
        assert not open_page("clinic", model=model, text=TEXT, case=pitfall.id).exception, (
            pitfall.id
        )
    for claim in CLAIMS:
        if claim.own and (not claim.slow or claim.id == "parallel"):
            at = open_page("claims", model=model, text=TEXT, claim=claim.id, guess="true")
            assert not at.exception, claim.id


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("case", ["model_scale", "small_fill", "inverted_padding"])
def test_without_an_output_layer_the_vectors_are_compared(
    open_page: Open, case: str, lang: str
) -> None:
    """There are no words and no loss of which "nothing changes" could be said."""
    words = everything(open_page("clinic", model="headless", text=TEXT, case=case, lang=lang))
    for key in ("clinic.unchanged", "filling.clinic.unchanged"):
        assert t(key, lang=lang) not in words
    same = t("clinic.vectors_same", lang=lang) in words
    before, after = re.escape(t("clinic.vectors_moved", lang=lang, moved="@")).split("@")
    assert bool(re.search(rf"{before}[\d.]+ %{after}", words)) == (case != "small_fill")
    assert same == (case == "small_fill")


CAUSAL = [pitfall.id for pitfall in PITFALLS if pitfall.needs == "causal"]


@pytest.mark.parametrize("model", ["reader", "headless"])
def test_a_model_that_reads_both_ways_cannot_have_a_causal_bug(open_page: Open, model: str) -> None:
    assert {"inverted_causal", "diagonal_open", "no_mask", "is_causal_cache"} <= set(CAUSAL)
    for case in CAUSAL:
        words = everything(open_page("clinic", model=model, text=TEXT, case=case))
        assert t("clinic.absent.causal", lang="en") in words
        assert t("clinic.fixed", lang="en") in words
        for key in ("clinic.unchanged", "filling.clinic.unchanged", "clinic.vectors_same"):
            assert t(key, lang="en") not in words
