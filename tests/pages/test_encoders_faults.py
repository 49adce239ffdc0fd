"""Every pitfall and every quick claim for encoders alone."""

import re

import pytest
from shown import Open, everything

from explorer.analysis.claims import CLAIMS
from explorer.analysis.clinic import PITFALLS
from explorer.text import LANGUAGES, t

TEXT = "She reads a [MASK] every morning."


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
