"""Every quick claim is shown in both languages, for a translator and for a writer."""

import re
from collections.abc import Callable

import pytest
from shown import everything, words_of
from streamlit.testing.v1 import AppTest

from explorer.analysis.claims import CLAIMS
from explorer.text import LANGUAGES, family, t

Open = Callable[..., AppTest]


_NUMBER = re.compile(r"\{\w+\}")


QUICK = [claim.id for claim in CLAIMS if not claim.slow]


def explanations(claim: str, lang: str) -> list[str]:
    """The longest piece of each explanation of a claim between the numbers that fill it."""
    said = family(f"claims.{claim}", lang=lang)
    return [max(_NUMBER.split(text), key=len) for name, text in said.items() if name != "claim"]


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("claim", QUICK)
@pytest.mark.parametrize("model", ["en-zh", "writer"])
def test_every_quick_claim_is_shown_in_both_languages_for_both_families(
    open_page: Open, lang: str, claim: str, model: str
) -> None:
    at = open_page("claims", lang=lang, claim=claim, guess="depends", model=model)
    assert not at.exception
    assert not at.warning
    assert any(said in everything(at) for said in explanations(claim, lang))
    assert t("claims.row", lang=lang) in everything(at)
    assert "。 " not in "".join(words_of(each) for each in (*at.markdown, *at.caption))
