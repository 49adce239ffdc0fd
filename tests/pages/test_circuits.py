"""The Circuits page: what it says of the model built by hand and of others, its link, bad input."""

from itertools import product

import pytest
from shown import Open, everything, link, reading

from explorer.pages.circuits.choices import CircuitsChoices
from explorer.text import t

FAMILIES = ("en-zh", "reader", "headless")


def test_the_circuit_built_by_hand_fails_without_its_first_head(open_page: Open) -> None:
    at = open_page("circuits", model="writer", part="circuit", made_of="by-hand")
    said = reading(at, "attends most to the previous token")
    assert "layer 2 · head 1: 100 % of its attention" in said
    assert "Ablating layer 1 · head 1" in said
    assert t("circuits.verdict_depends", lang="en") in said
    assert len(at.get("plotly_chart")) == 5
    assert "in 100 % of cases" in everything(at)


def test_kinds_of_heads_are_chosen_and_kept_in_the_link(open_page: Open) -> None:
    at = open_page("circuits", model="writer")
    best = reading(at, "sequences of")
    assert "attention to what followed" in best
    at.segmented_control(key="circuits.behaviour").set_value("previous").run()
    assert not at.exception
    assert link(at)["behaviour"] == "previous"
    assert "attention to the previous token" in reading(at, "sequences of")


def test_a_head_of_the_link_is_looked_at(open_page: Open) -> None:
    at = open_page("circuits", model="writer", layer="2", head="3", part="vocabulary")
    assert at.selectbox(key="circuits.head").value == (1, 2)
    at.selectbox(key="circuits.head").set_value((0, 1)).run()
    assert (link(at)["layer"], link(at)["head"]) == ("1", "2")
    at.segmented_control(key="circuits.head_map").set_value("qk").run()
    assert "By the weights alone" in reading(at, "matches")


@pytest.mark.parametrize(
    ("model", "part"),
    [
        pytest.param(model, part, marks=() if at % 3 == 0 else pytest.mark.sweep)
        for at, (model, part) in enumerate(product(FAMILIES, CircuitsChoices.parts))
    ],
)
def test_every_family_is_measured(open_page: Open, model: str, part: str) -> None:
    at = open_page("circuits", model=model, part=part)
    assert not at.exception
    assert at.get("plotly_chart")
    words = "circuits.translator" if model == "en-zh" else "circuits.both_ways"
    assert t(words, lang="en") in everything(at)


def test_a_text_of_one_token_has_nothing_to_foresee(open_page: Open) -> None:
    at = open_page("circuits", model="writer", text="a", part="circuit", made_of="text")
    assert [each.value for each in at.info] == [t("circuits.one_token", lang="en")]
    at = open_page("circuits", model="writer", text="a")
    assert not at.exception
