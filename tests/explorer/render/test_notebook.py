"""Exhibits in a notebook: which names are theirs, which choices, and what is refused."""

import re
from collections.abc import Mapping

import numpy as np
import pytest

import explorer as hl
from explorer.exhibits.masks.fills import fills
from explorer.library import open_model
from explorer.pages import PAGES
from explorer.render.notebook import is_shown
from explorer.runs.trace import trace

TEXT = "She reads a book."


@pytest.mark.parametrize(
    ("name", "there"),
    [
        *(("masks", True), ("masks.fills", True), ("cell", True), ("causes.writes", True)),
        *(("masks.nothing", False), ("view", False), ("en-zh", False), ("a b", False)),
    ],
)
def test_names_of_exhibits_and_pages_are_known(name, there) -> None:
    assert is_shown(name) == there


def test_choices_are_those_of_links_and_the_numbers_those_of_the_analysis() -> None:
    chosen = {"site": "decoder", "layer": 1, "head": 2, "row": 1, "way": "twice"}
    found = hl.show("masks.fills", "en-zh", TEXT, **chosen).numpy()
    loaded = open_model("en-zh")
    run = trace(loaded, TEXT)
    site = run.sites_of("decoder")[1]
    scores, mask = run.activations[site.hook("scores")][2], run.mask(site.name)[2]
    expected = fills(scores, mask, 1, "twice")
    hidden = [float(each) for each in found["Weight on blocked keys"] if each != "–"]
    known = [each.hidden for each in expected if not np.isnan(each.hidden)]
    np.testing.assert_allclose(hidden, known, atol=5e-5)


def test_a_page_shows_the_part_that_is_asked_for_and_no_controls() -> None:
    made = hl.show("masks", "en-zh", TEXT, part="fills", pads=2).html()
    assert "finfo.min" in made
    assert "Subtract from all scores" not in re.sub(r"<script>.*?</script>", "", made, flags=re.S)


def test_of_a_page_what_is_open_is_shown() -> None:
    made = hl.show("cell", "en-zh", TEXT, stage=3, aside="layouts")  # its earlier name
    assert "divided by the softmax denominator" in made.html()
    assert "Three common ways to store" in made.html()
    assert not re.search("Dimension by dimension|Without W_Q", made.html())
    weights = np.array(made.numpy()["weight"])
    assert abs(weights.sum() - 1) < 1e-3


def test_a_still_picture_is_the_svg_of_what_has_one() -> None:
    drawn = hl.show("masks.matrices", "en-zh", TEXT).svg()
    assert drawn.count("<g transform") > 2
    with pytest.raises(ValueError, match="no still picture"):
        hl.show("masks.fills", "en-zh", TEXT).svg()


def test_a_model_that_is_not_listed_is_shown_under_its_own_name(tmp_path) -> None:
    """Two folders of one name are two models."""
    shelf = open_model("twin-right").folder.parent
    texts = []
    for number, model in enumerate(("twin-right", "twin-no-causal")):
        folder = tmp_path / str(number) / "mine"
        folder.parent.mkdir()
        folder.symlink_to(shelf / model)
        shown = hl.show("masks.effect", hl.open_model(folder), "Tom is here.")
        texts.append(re.sub(r"<script>.*?</script>", "", shown.html(), flags=re.S))
    assert texts[0] != texts[1]


def test_what_the_app_computes_only_when_asked_for_is_computed_at_once(
    translator, monkeypatch
) -> None:
    for module in ("patching.map", "heads.matter"):
        monkeypatch.setattr(f"explorer.exhibits.{module}.AT_ONCE", 0)
    assert hl.show("patching.map", translator, "We went to the park.").numpy()
    assert "Plotly.react" in hl.show("heads.matter", translator, "We went to the park.").html()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"wey": "twice"}, "no choice 'wey'"),
        ({"way": "often"}, "way cannot be 'often'"),
        ({"pads": 99}, "pads cannot be '99'"),
    ],
)
def test_what_cannot_be_chosen_is_said(asked, said) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        hl.show("masks.fills", "en-zh", TEXT, **asked)


def test_an_exhibit_that_is_not_there_and_choices_of_a_model_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no exhibit 'masks\.holes'"):
        hl.show("masks.holes", "en-zh", TEXT)
    with pytest.raises(ValueError, match="only exhibits have choices: way"):
        hl.show("en-zh", TEXT, way="twice")


OPEN = [
    # The first part of each page; `test_each_part_is_drawn` draws the others in the app.
    pytest.param(page.name, part, marks=[pytest.mark.sweep] if page.name == "atlas" or at else [])
    for page in PAGES
    if isinstance(parts := getattr(page.choices, "parts", None), Mapping)
    for at, part in enumerate(parts)
]


@pytest.mark.parametrize(("page", "part"), OPEN)
def test_every_part_of_every_page_of_exhibits_is_drawn(page, part, translator) -> None:
    made = hl.show(page, translator, TEXT, **({"part": part} if part else {}))
    assert made.title in made.html()
