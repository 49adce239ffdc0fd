"""The Circuits page: what it says of each kind of model, and links."""

import pytest
from shown import everything, link, panels, reading

from explorer.exhibits.circuits import roles
from explorer.text import t


def test_the_circuit_built_by_hand_fails_without_its_first_head(open_page):
    at = open_page("circuits", model="writer", part="circuit", made_of="by-hand")
    said = reading(at, "attends to what")
    assert "L2·H1 attends to what followed the earlier copy: 100 %" in said
    assert "Ablating the 1 earlier head" in said
    assert t("circuits.verdict_depends", lang="en") in said
    for name in ("copies", "finds", "fails", "alone"):
        assert panels(at, f"circuits.{name}")
    assert "in 100 % of cases" in everything(at)


def test_a_head_of_the_link_is_looked_at_and_one_token_has_nothing_to_foresee(open_page):
    at = open_page("circuits", model="writer", layer="2", head="3", part="vocabulary")
    assert at.selectbox(key="circuits.head").value == (1, 2)
    at.selectbox(key="circuits.head").set_value((0, 1)).run()
    assert (link(at)["layer"], link(at)["head"]) == ("1", "2")
    at.segmented_control(key="circuits.head_map").set_value("qk").run()
    assert "with key" in reading(at, "Largest score")
    at = open_page("circuits", model="writer", text="a", part="circuit", made_of="text")
    assert t("circuits.one_token", lang="en") in everything(at)


@pytest.mark.parametrize("text", [pytest.param(None, marks=pytest.mark.sweep), "I like you."])
def test_a_head_that_is_no_better_than_chance_depends_on_nothing(open_page, shipped, text):
    """3.4 % beside 3.0 % even: the copies with shuffled weights have such heads too."""
    made = {"made_of": "text", "text": text} if text else {}
    words = everything(open_page("circuits", model="twin-deep-branch", part="circuit", **made))
    lacks = t("circuits.second_lacks", lang="en")
    assert words.index(lacks) < words.index("attends to what")
    assert "depends on" not in words
    assert "**L" in words


@pytest.mark.parametrize(
    ("model", "kind", "said"),
    [
        ("en-zh", "first", "L1·H1 is clearly of this type: "),
        pytest.param("stories", "first", "clearly of this type", marks=pytest.mark.sweep),
    ],
)
def test_the_page_opens_on_a_kind_that_some_head_is_of(open_page, shipped, model, kind, said):
    at = open_page("circuits", model=model)
    assert at.segmented_control(key="circuits.behaviour").value == kind
    assert said in reading(at, "of this type")
    assert "behaviour" not in link(at)


def test_a_large_model_is_compared_with_chance_when_asked(open_page, monkeypatch):
    monkeypatch.setattr(roles, "AT_ONCE", 0)
    at = open_page("circuits", model="writer", behaviour="previous")
    note = t("circuits.chance_note", lang="en", copies=19)
    assert "not tested against chance" in reading(at, "has the highest score")
    assert note not in everything(at)
    at.button(key="circuits.test").click().run()
    assert "chance: up to" in reading(at, "(uniform")
    assert note in everything(at)
    assert not [each for each in at.button if each.key == "circuits.test"]
