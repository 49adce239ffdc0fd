"""The Claims page: a guess first, then numbers that answer it."""

import re
from inspect import isgeneratorfunction

import pytest
from shown import everything, figure, reading, words_of

from explorer import library
from explorer.analysis.cases import CLAIMS, positions
from explorer.text import LANGUAGES, family, t

_NUMBER = re.compile(r"\{\w+\}")


def explanations(claim: str, lang: str) -> list[str]:
    """The longest piece of each explanation of a claim between the numbers that fill it."""
    said = family(f"cases.{claim}", lang=lang)
    return [max(_NUMBER.split(text), key=len) for name, text in said.items() if name != "title"]


def test_nothing_is_measured_before_the_guess(open_page):
    at = open_page("cases", part="claims", claim="gelu_tanh")
    assert at.subheader[0].value == t("cases.gelu_tanh.title", lang="en")
    assert t("cases.waiting", lang="en") in everything(at)
    assert not any(said in everything(at) for said in explanations("gelu_tanh", "en"))
    assert not at.get("plotly_chart")


@pytest.mark.parametrize(("guess", "right"), [("true", True), ("false", False)])
def test_the_guess_is_answered_by_the_numbers(open_page, guess, right):
    at = open_page("cases", part="claims", claim="gelu_tanh")
    at.segmented_control(key="cases.guess").set_value(guess).run()
    assert at.query_params["guess"] == guess
    assert t("cases.gelu_tanh.title", lang="en") in at.code[1].value  # the reading to keep
    words = t("cases.verdicts.true", lang="en")
    said = t("cases.guessed_right", lang="en", verdict=words)
    assert (said in everything(at)) == right
    assert f"**{words}**" in everything(at)
    assert "0.000473" in reading(at, "Measurement |")
    assert t("cases.score", lang="en", right=int(right), count=1) in everything(at)
    assert figure(at)["data"][0]["type"] == "scatter"


def test_the_code_shows_what_an_experiment_runs_where_a_test_puts_something_else(open_page):
    at = open_page("cases", part="claims", claim="variance", guess="true")
    at.segmented_control(key="cases.more").set_value("code").run()
    assert any("def _normal(" in each.value for each in at.code)


def test_the_score_is_in_the_link_and_the_first_guess_of_each_claim_counts(open_page):
    at = open_page("cases", part="claims", claim="original", guess="true")
    guessed = at.query_params["guessed"]
    assert len(guessed) <= len(CLAIMS)
    assert guessed.replace("-", "") == "0"
    again = open_page("cases", part="claims", claim="gelu_tanh", guess="true", guessed=guessed)
    assert t("cases.score", lang="en", right=1, count=2) in everything(again)
    at.segmented_control(key="cases.guess").set_value("false").run()
    assert t("cases.score", lang="en", right=0, count=1) in everything(at)
    at.segmented_control(key="cases.group").set_value("positions").run()
    assert at.query_params["claim"] == "offset_only"
    assert "guess" not in at.query_params
    at.segmented_control(key="cases.guess").set_value("true").run()
    assert t("cases.score", lang="en", right=1, count=2) in everything(at)


def test_the_next_claim_and_the_list_lead_on(open_page):
    at = open_page("cases", part="claims", claim="gelu_tanh", guess="true")
    at.button(key="cases.next").click().run()
    assert at.query_params["claim"] == CLAIMS[0].id
    at.selectbox(key="cases.claim").select(CLAIMS[2].id).run()
    assert at.query_params["claim"] == CLAIMS[2].id


def test_an_experiment_can_be_run_again(open_page):
    at = open_page("cases", part="claims", claim="offset_only", guess="true")
    before = reading(at, "Measurement |")
    at.button(key="cases.again").click().run()
    assert reading(at, "Measurement |") == before


def test_a_claim_whose_model_is_not_there_says_which(open_page, shelf, monkeypatch):
    monkeypatch.setattr(positions, "open_model", lambda name: library.open_model(name, shelf))
    at = open_page("cases", part="claims", claim="extrapolation", guess="true")
    assert "reverse" in str(at.warning[0].value)
    assert not any(said in everything(at) for said in explanations("extrapolation", "en"))


QUICK = [claim.id for claim in CLAIMS if not isgeneratorfunction(claim.measure)]


@pytest.mark.parametrize("turn", range(2), ids=["en-zh", "writer"])
@pytest.mark.parametrize("claim", QUICK)
def test_every_quick_claim_is_shown_in_both_languages_and_for_both_families(open_page, claim, turn):
    lang, model = LANGUAGES[(QUICK.index(claim) + turn) % 2], ("en-zh", "writer")[turn]
    at = open_page("cases", part="claims", lang=lang, claim=claim, guess="depends", model=model)
    assert not at.warning
    assert any(said in everything(at) for said in explanations(claim, lang))
    assert t("cases.row", lang=lang) in everything(at)
    assert "。 " not in "".join(words_of(each) for each in (*at.markdown, *at.caption))
