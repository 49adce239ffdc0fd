"""Start: what the picture is sent for every family, and what is done in it."""

from typing import Any

import numpy as np
import pytest
from payloads import unpack
from shown import everything, payload
from streamlit.testing.v1 import AppTest

from explorer import library
from explorer.components.payload import BLOCKED
from explorer.exhibits import block as b
from explorer.exhibits.links import State
from explorer.exhibits.start import picture as start_picture
from explorer.exhibits.start.choices import CHANGES, SHUT, in_force, with_mask
from explorer.exhibits.start.picture import EXHIBIT
from explorer.exhibits.view import build
from explorer.runs import generation
from explorer.runs.edits import HeadOff, MaskSize, MaskSwitch
from explorer.runs.trace import generate, trace
from explorer.text import t
from models.strategies import Greedy

TEXT = "I like you."


def picture(at: AppTest) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    return payload(at, "start.picture")


def weights(codes: np.ndarray) -> np.ndarray:
    return np.where(codes == BLOCKED, 0, (codes / 254) ** 2)


@pytest.mark.parametrize(("model", "lanes"), [("en-zh", 2), ("writer", 1)])
def test_the_picture_holds_the_numbers_of_the_run(open_page, model, lanes):
    head, arrays = picture(open_page("start", model=model, text=TEXT))
    loaded = library.open_model(model, library.CHECKPOINTS)
    made = generate(loaded, TEXT, Greedy(), 64 if lanes == 2 else 24)
    assert len(head["lanes"]) == lanes
    assert [moment["tokens"][moment["chosen"]] for moment in head["moments"]] == [
        step.chosen_str for step in made.steps
    ]
    assert head["said"] == head["moments"][-1]["said"]
    assert head["said"].endswith(made.text)
    for lane, each in enumerate(head["lanes"]):
        for block, of in enumerate(each["blocks"]):
            for place, site in enumerate(of["sites"]):
                rows = arrays[f"rows{lane}.{block}.{place}"]
                if lane < lanes - 1:
                    assert len(rows) == 0
                    continue
                (name,) = (
                    s.name
                    for s in loaded.sites
                    if (s.stack, s.layer, s.role) == ("decoder", block, site["role"])
                )
                for drawn, step in zip(rows, made.steps, strict=True):
                    seen = weights(drawn)[:, : step.rows[name].shape[-1]]
                    np.testing.assert_allclose(seen, step.rows[name], atol=0.006)


@pytest.mark.parametrize("most", [1, 40])
def test_a_translation_is_as_long_as_on_other_pages_and_says_if_it_is_cut_off(
    open_page, monkeypatch, most
):
    for module in (generation, start_picture):
        monkeypatch.setattr(module, "longest", lambda *_: most)
    text = "She reads a book every morning."
    at = open_page("start", text=text)
    head, _ = picture(at)
    traced = trace(library.open_model("en-zh", library.CHECKPOINTS), text)
    assert len(head["moments"]) == len(traced.tgt_tokens) - 1 + traced.finished
    assert (t("place.unfinished", lang="en") in everything(at)) == (not traced.finished)
    assert traced.finished == (most == 40)


def test_a_gap_is_filled_in_where_it_is_and_a_changed_mask_shows_what_it_took(open_page):
    head, _ = picture(open_page("start", model="reader", text="I [MASK] you."))
    (moment,) = head["moments"]
    lane = head["lanes"][0]
    assert lane["special"][moment["thread"]]
    assert lane["given"] == len(lane["tokens"])
    assert head["said"] == moment["said"]
    assert "___" not in head["said"]
    head, _ = picture(open_page("start", text=TEXT, edits="window-1"))
    assert head["mask"] == "alone"
    loaded = library.open_model("en-zh", library.CHECKPOINTS)
    before, after = (
        [step.chosen_str for step in generate(loaded, TEXT, Greedy(), 64, edits).steps[:-1]]
        for edits in ((), CHANGES["alone"])
    )
    assert before != after
    assert [token for token, status in head["diff"] if status != "new"] == before
    assert [token for token, status in head["diff"] if status != "gone"] == after
    assert picture(open_page("start", text=TEXT))[0]["diff"] == []


@pytest.mark.parametrize("model", ["headless", "reader"])
def test_a_model_that_writes_nothing_is_read(open_page, model):
    head, arrays = picture(open_page("start", model=model, text=TEXT))
    traced = trace(library.open_model(model, library.CHECKPOINTS), TEXT)
    assert [moment["thread"] for moment in head["moments"]] == list(range(len(traced.tgt_tokens)))
    assert head["said"] == TEXT
    for layer, site in enumerate(traced.sites):
        seen = weights(arrays[f"cells0.{layer}.0"])
        np.testing.assert_allclose(seen, traced.pattern(site.name), atol=0.006)


def test_a_large_model_is_drawn_while_it_continues_the_text(app, monkeypatch):
    def drawn(model):
        view = build(State(model=model, text=TEXT), dark=False)
        return [*b.inside(EXHIBIT.wait.blocks(view))]

    assert drawn("writer") == []  # it is fast
    monkeypatch.setattr(start_picture, "SMALL", 0)
    assert drawn("en-zh") == []  # a translation is generated before anything is read
    (picture_of_text,) = (piece for piece in drawn("writer") if isinstance(piece, b.Canvas))
    head, _ = unpack(picture_of_text.payload("file"))
    n_tokens = len(trace(library.open_model("writer", library.CHECKPOINTS), TEXT).tgt_tokens)
    assert (head["said"], len(head["moments"])) == (TEXT, n_tokens)


def test_only_a_decoder_has_a_causal_mask_and_a_mask_takes_the_place_of_others(open_page):
    for model, names in (("en-zh", list(CHANGES)), ("reader", ["trained", "alone"])):
        head, _ = picture(open_page("start", model=model, text=TEXT))
        assert [name for name, _ in head["masks"]] == names
        assert head["mask"] == "trained"
    off = HeadOff("decoder.blocks.0.attn", 1)
    edits = with_mask((off, MaskSize("window", 4)), "causal")
    assert edits == (off, MaskSwitch("causal", False))
    assert in_force(edits) == "causal"
    assert in_force(with_mask(edits, "trained")) == "trained"
    assert in_force((MaskSize("window", 4),)) == ""


@pytest.mark.parametrize("door", ["head", "waves", "steps", "heads"])
@pytest.mark.parametrize("model", ["en-zh", pytest.param("headless", marks=pytest.mark.sweep)])
def test_every_door_opens_from_its_link(open_page, model, door):
    at = open_page("start", model=model, text=TEXT, door=door)
    head, arrays = picture(at)
    assert head["door"] == door
    assert at.query_params["door"] == door
    assert (head["opened"] is not None) == (door == "head")
    assert ("open_q" in arrays) == (door == "head")


def test_an_opened_head_is_the_one_of_the_link_which_is_no_old_address(open_page):
    head, _ = picture(open_page("start", text=TEXT, door="head", site="cross", layer="2", head="3"))
    opened = head["opened"]
    traced = trace(library.open_model("en-zh", library.CHECKPOINTS), TEXT)
    site = traced.sites_of("cross")[1]
    assert opened["at"] == [1, 1, 1]
    assert opened["head"] == 2
    np.testing.assert_allclose(opened["pattern"], traced.pattern(site.name)[2], atol=1e-5)
    scores = traced.activations[site.hook("scores")][2]
    np.testing.assert_allclose(opened["scores"], scores, atol=1e-3)
    at = open_page("start", text=TEXT, layer="2", head="1")
    assert at.query_params["door"] == SHUT
    assert "door" not in open_page("start", text=TEXT).query_params


def test_a_sentence_and_a_model_chosen_here_are_shown_in_the_sidebar_too(open_page):
    at = open_page("start", text=TEXT)
    at.text_input(key="start.text").set_value("She reads a book.").run()
    head, _ = picture(at)
    traced = trace(library.open_model("en-zh", library.CHECKPOINTS), "She reads a book.")
    assert head["lanes"][0]["tokens"] == list(traced.src_str_tokens)
    assert at.query_params["text"] == "She reads a book."
    assert at.text_area(key="sidebar.text").value == "She reads a book."
    at.selectbox(key="start.model").select("writer").run()
    assert len(picture(at)[0]["lanes"]) == 1
    assert at.selectbox(key="sidebar.model").value == "writer"


def test_what_the_picture_cannot_do_is_ignored(app):
    view = build(State(text=TEXT), dark=False)
    (hero, *_) = EXHIBIT.show(EXHIBIT.answer(view), view)
    (canvas,) = hero.blocks
    picked = canvas.on["picked"]
    for sent in (None, 3, {"link": "http://x/"}, {"link": "claims?a=b"}, {"head": [9, 0, 0, 0]}):
        assert picked(sent) is None
    change = picked({"link": "heads?text=a"})
    assert change.visit == "heads"


def test_a_text_of_several_lines_has_a_box_that_keeps_them(open_page):
    at = open_page("start", text="I like\n  you.")
    (box,) = (each for each in at.text_area if each.key and not each.key.startswith("sidebar."))
    assert box.value == "I like\n  you."
    box.set_value("I like you.\n\nWe left.").run()
    assert at.text_area(key=box.key).value == "I like you.\n\nWe left."
    at.text_area(key=box.key).set_value("I like you.").run()
    one_line = box.key.removesuffix(".lines")
    assert at.text_input(key=one_line).value == "I like you."
    at.text_area(key="sidebar.text").set_value("We left.\n").run()
    assert at.text_area(key=box.key).value == "We left.\n"
