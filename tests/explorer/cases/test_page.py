"""Bugs and claims: every bug is shown and injected; a guess first, then numbers that answer."""

import re
from inspect import isgeneratorfunction

import pytest
from shown import charts, code_on, copied, everything, filled, panels, reading, words_of

from explorer.analysis.cases import BUGS, BY_ID, CHOICES, CLAIMS, GUESSED
from explorer.analysis.cases.case import source_of
from explorer.exhibits.cases.case import PLACES, formulas
from explorer.text import LANGUAGES, family, t


def test_every_fault_of_the_clinic_is_shown(open_page):
    at = open_page("cases", part="bugs", pads="2")
    for bug in BUGS:
        if at.query_params.get("case", [BUGS[0].id]) != [bug.id]:
            at.segmented_control(key="cases.group").set_value(bug.group).run()
            at.segmented_control(key="cases.case").set_value(bug.id).run()
        assert t(f"cases.{bug.id}.symptom", lang="en") in everything(at)
        assert source_of(bug.variant) in code_on(at)
        where = (t(f"cases.{name}", lang="en") for name in ("own", "fixed"))
        assert sum(words in everything(at) for words in where) == 1


def test_a_planted_fault_shows_in_what_is_written(open_page):
    at = open_page("cases", case="inverted_padding")
    loss = filled(at, "cases.loss")
    assert loss["stream"] == "target"
    assert float(loss["after"]) > float(loss["before"])
    unchanged = open_page("cases", case="padding_per_head")
    assert t("cases.not_planted", lang="en") in everything(unchanged)


@pytest.mark.parametrize(
    ("model", "case", "words"),
    [
        ("writer", "inverted_causal", "Loss per predicted token of the same text"),
        ("reader", "inverted_padding", "Loss per token of the same text, special tokens included"),
    ],
)
def test_the_loss_is_named_for_what_it_is_of(open_page, model, case, words):
    assert words in everything(open_page("cases", model=model, case=case))


def test_every_fault_has_a_formula_of_its_own(open_page):
    assert set(formulas()) == set(BY_ID)
    for bug in BUGS:
        wrong, right = formulas()[bug.id]
        assert wrong != right
    at = open_page("cases", case="unbiased_variance")
    at.segmented_control(key="cases.more").set_value("more").run()
    for word in ("Wrong", "Right"):
        (formula,) = (each.value for each in at.latex if word in each.value)
        assert r"\sigma" in formula


_NUMBER = re.compile(r"\{\w+\}")


def explanations(claim: str, lang: str) -> list[str]:
    """The longest piece of each explanation of a claim between the numbers that fill it."""
    said = {"why": t("cases.matches", lang=lang, same="{n}", count="{n}")}
    said |= family(f"cases.{claim}", lang=lang)
    return [max(_NUMBER.split(text), key=len) for name, text in said.items() if name != "title"]


@pytest.mark.parametrize(("guess", "right"), [("true", True), ("false", False)])
def test_the_guess_is_answered_by_the_numbers_and_nothing_is_measured_before(
    open_page, guess, right
):
    at = open_page("cases", part="claims", claim="gelu_tanh")
    assert not any(said in everything(at) for said in explanations("gelu_tanh", "en"))
    (still,) = charts(at, "cases.still")  # the axes, without a number
    assert not any(still["layout"][axis]["showticklabels"] for axis in ("xaxis", "yaxis"))
    at.segmented_control(key="cases.guess").set_value(guess).run()
    assert at.query_params["guess"] == guess
    assert copied(at, t("cases.gelu_tanh.title", lang="en"))  # the reading to keep
    words = t("cases.verdicts.true", lang="en")
    said = t("cases.guessed_right", lang="en", verdict=words)
    assert (said in everything(at)) == right
    assert f"**{words}**" in everything(at)
    assert "0.000473" in reading(at, "Measurement |")
    assert t("cases.score", lang="en", right=int(right), count=1) in everything(at)
    assert charts(at, "cases.picture")


def test_the_score_is_in_the_link_and_the_first_guess_of_each_claim_counts(open_page):
    at = open_page("cases", part="claims", claim="original", guess="true")
    guessed = at.query_params["guessed"]
    assert len(guessed) <= len(GUESSED)
    assert guessed.replace("-", "") == "0"
    again = open_page("cases", part="claims", claim="gelu_tanh", guess="true", guessed=guessed)
    assert t("cases.score", lang="en", right=1, count=2) in everything(again)
    again.button(key="cases.next").click().run()
    assert again.query_params["claim"] == CLAIMS[0].id
    again.selectbox(key="cases.claim").select(CLAIMS[2].id).run()
    assert again.query_params["claim"] == CLAIMS[2].id
    at.segmented_control(key="cases.guess").set_value("false").run()
    assert t("cases.score", lang="en", right=0, count=1) in everything(at)
    at.segmented_control(key="cases.group").set_value("counting").run()
    assert at.query_params["claim"] == "mha_count"
    assert "guess" not in at.query_params
    at.segmented_control(key="cases.guess").set_value("depends").run()
    assert t("cases.score", lang="en", right=1, count=2) in everything(at)


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


def test_a_choice_is_measured_or_opens_elsewhere(open_page):
    at = open_page("cases", part="choices")
    assert t("cases.notation.lead", lang="en") in everything(at)
    at.segmented_control(key="cases.group").set_value("design").run()
    assert at.query_params["option"] == "design"
    assert t("cases.design.lead", lang="en") in everything(at)
    for choice in CHOICES:
        asked = PLACES.get(choice.id, {"visit": "cases", "part": "choices", "option": choice.id})
        page = asked["visit"]
        there = open_page(page, **{name: value for name, value in asked.items() if name != "visit"})
        if page == "masks":
            assert panels(there, f"cases.{choice.id}.grids")
            continue
        assert t(f"cases.{choice.id}.lead", lang="en") in everything(there)
        assert "\n| " in everything(there)  # its table
    at = open_page("cases", part="choices", option="design", model="headless")
    assert "no LM head" in everything(at)
