"""Models that read pictures, shipped and foreign: every page, and typed, drawn or uploaded ones."""

import base64
import re
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import streamlit as st
from cores import core
from foreign import Golden
from shown import Open, everything, link, messages

from explorer.engine.models import texts_for
from explorer.exhibits.links import State
from explorer.exhibits.saying import message
from explorer.pages import PAGES
from explorer.problems import InputProblem
from explorer.runs.edits import KeyHidden, parse_edits
from explorer.ui import session, source
from models.foreign.finding import VARIABLE
from models.pictures import picture_of
from models.pictures.faces import FACES, drawn_word, split_face

SIZES = (24, 96, 12, 6)


@pytest.fixture
def open_reader(open_page) -> Open:
    return partial(open_page, model="reader", text="Brown @serif")


def test_a_word_and_its_face_are_chosen_where_pictures_are_read(open_reader):
    at = open_reader("heads", edits="hide-src-2~hide-src-3~hide-src-4~hide-src-5")
    assert "More images" in [each.label for each in at.expander]  # in the frame, not of a view
    assert "4 tokens hidden" in everything(at)
    assert at.text_input(key="heads.word").value == "Brown"
    at.selectbox(key="heads.face").set_value("comic").run()
    assert link(at)["text"] == "Brown @comic"
    at.text_input(key="heads.word").set_value("Head").run()
    assert link(at)["text"] == "Head @comic"


def test_another_kind_of_input_is_not_compared_and_missing_letters_are_explained(open_reader):
    at = open_reader("heads", **{"with": "en-zh"})
    said = message(InputProblem("other_input", name="en-zh"), "en")
    assert said in messages(at)
    at = open_reader("heads", text="你好 @sans")
    assert not at.info
    assert "hints.take" not in {each.key for each in at.button}
    at = open_reader("heads", text="今天!")
    assert "vocabulary: " in everything(at)
    at = open_reader("heads", text="北京")
    assert "北 cannot be drawn" in everything(at)


def test_a_drawing_and_a_click_change_what_is_read(monkeypatch):
    changed: dict[str, Any] = {}
    monkeypatch.setattr(session, "change", lambda **fields: changed.update(fields))
    monkeypatch.setattr(session, "state", partial(State, model="reader"))
    ink = drawn_word("Lane", 24, 96)[0]
    message = base64.b64encode(np.repeat(255 - ink[..., None], 3, -1)).decode()
    monkeypatch.setattr(st, "session_state", {"k": {"drawn": message}})
    source._draw("k", SIZES)
    again = picture_of(changed["text"], SIZES).astype(int)
    assert np.abs(again - ink).max() <= 9
    causal, hidden = parse_edits("causal-off"), KeyHidden("src", 31)
    for before, patches, expected in (
        (causal, [31.0, -1, 32, "é", None], (*causal, hidden)),
        ((hidden,), [], ()),
        ((*causal, hidden), (30,), (*causal, KeyHidden("src", 30))),
    ):
        monkeypatch.setattr(session, "state", partial(State, model="reader", edits=before))
        monkeypatch.setattr(st, "session_state", {"k": {"hidden": {"patches": patches}}})
        source._hide("k", 32, "src", 0)
        assert changed["edits"] == expected
    changed.clear()
    for bad in ("", "A" * 100_000, "é", message[:-4], 3, None):
        for sent in (bad, {"patches": bad}):
            monkeypatch.setattr(st, "session_state", {"k": {"drawn": bad, "hidden": sent}})
            source._draw("k", SIZES)
            source._hide("k", 32, "src", 0)
            assert not changed


def test_other_pages_number_the_patches_and_frame_the_query(open_reader):
    # The query 3, counted from 0, is the patch 2,2; the numbers have the first row and column.
    for row, area in (("3", "3/3"), ("0", "2/2")):
        at = open_reader("score", site="encoder", row=row)
        (shown,) = [each.proto.body for each in at.get("html") if "<img" in each.proto.body]
        assert f'<i style="grid-area:{area}">' in shown
        assert '<span style="grid-area:3/1">2</span>' in shown
        assert '<span style="grid-area:1/4">3</span>' in shown


def test_an_atlas_at_hand_has_each_word_in_every_face():
    drawn = [split_face(each.source) for each in texts_for("reader")]
    assert len(drawn) == len(FACES) * len({word for word, _ in drawn})
    assert {face for _, face in drawn} == set(FACES)


KINDS = ("vit", "dinov2_with_registers", "siglip_vision_model", "reader")
OF_TEXTS = {"training", "tour", "exercises", "cases", "card"}
"""Pages that show other models' texts, too."""
PARTS = [(page.name, part) for page in PAGES for part in getattr(page.choices, "parts", ("",))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("vision")
    for kind in KINDS[:-1]:
        Golden.load("labels/vit" if kind == "vit" else kind).write(made / kind)
    return made


@pytest.fixture(autouse=True)
def _found(folder, shipped, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(folder))


FIRSTS = {page: part for page, part in reversed(PARTS)}
TURNS = [(*visit, kind) for visit, kind in zip(FIRSTS.items(), cycle(KINDS), strict=False)]
"""The first part of each page, with one of the kinds in turn."""


@pytest.mark.parametrize(
    ("page", "part", "model"), core(((*visit, kind) for visit in PARTS for kind in KINDS), TURNS)
)
def test_each_page_opens(open_page, page, part, model):
    asked = {"part": part} if part else {}
    at = open_page(page, model=model, text="a @serif", **asked)
    assert not at.error
    if page in ("circuits", "atlas") and model != "reader":
        assert "no vocabulary of texts" in everything(at)
    if page not in OF_TEXTS:
        shown = [everything(at), *(tab for pick in at.button_group for tab in pick.options)]
        assert (
            re.findall(r".*(?:[Ss]entence|[Ww]ord order|[Tt]ranslation).*", "\n".join(shown)) == []
        )


def test_the_class_is_shown_and_a_word_is_drawn(open_page):
    """A hidden patch is counted behind the class token, and the classes are named."""
    at = open_page("heads", model="vit", edits="hide-tgt-3")
    said = everything(at)
    assert "hidden" in said
    assert any(f"**{label} " in said for label in ("bad", "so-so", "good"))
    at.text_input(key="heads.word").set_value("b").run()
    assert link(at)["text"] == "b @sans"
