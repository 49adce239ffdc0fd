"""Masks under test in real Chromium with the shipped translator: mask tests, common bugs, lab."""

from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, expect

from explorer.text import t
from tests.browser.conftest import Visitor, asked

pytestmark = pytest.mark.browser
FIRST = "cells-decoder-all-shut-1.0"


def paint_by_keys(visitor: Visitor) -> Locator:
    """Close the decoder's cell (1, 0) by the keyboard; return the matrix that it is in."""
    visitor.open("masks", text="I like dogs.", pads="0", site="decoder", layer="1", head="1")
    visitor.page.get_by_text(t("masks.tools.brush", lang="en"), exact=True).click()
    visitor.shows(t("masks.scopes.layer", lang="en"))
    visitor.settle()
    canvas = visitor.page.locator(".st-key-masks-matrices canvas[data-at=cells1]")
    # The page can be ready before the matrix has put on what it was told.
    expect(canvas).to_have_class("brush")
    canvas.focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):  # the first press shows where one stands
        canvas.press(key)
    visitor.page.wait_for_url(lambda url: asked(url).get("edits", "") == FIRST)
    visitor.settle()
    visitor.shows(t("edits.cell_shut", lang="en", query=1, key=0))
    # The keyboard stands where it stood, in a matrix that knows of the change.
    blocked = t("components.matrices.blocked", lang="en")
    expect(visitor.page.locator(".readout").nth(1)).to_contain_text(blocked)
    expect(canvas).to_be_focused()
    return canvas


def lower_left(canvas: Locator) -> tuple[float, float]:
    """A point in the lowest cell of the second column."""
    box = canvas.bounding_box()
    return box["x"] + box["width"] * 0.45, box["y"] + box["height"] - 8


def test_cells_are_painted_by_a_drag_and_undone(visitor):
    left, low = lower_left(paint_by_keys(visitor))
    visitor.page.mouse.move(left, low)
    visitor.page.mouse.down()
    visitor.page.mouse.move(left, low - 40, steps=4)  # along the column upwards
    visitor.page.mouse.up()
    visitor.settle()
    visitor.page.wait_for_url(lambda url: asked(url).get("edits", "") not in ("", FIRST))
    visitor.settle()
    visitor.page.get_by_role("button", name=t("masks.undo", lang="en"), exact=True).click()
    visitor.page.wait_for_url(lambda url: asked(url).get("edits", "") == FIRST)


def test_a_stroke_outlives_an_answer_that_arrives_in_its_middle(visitor):
    canvas = paint_by_keys(visitor)
    canvas.evaluate("node => { node.dataset.before = 'the answer'; }")
    left, low = lower_left(canvas)
    visitor.page.mouse.move(left, low)
    visitor.page.mouse.down()
    undo = visitor.page.get_by_role("button", name=t("masks.undo", lang="en"), exact=True)
    undo.evaluate("button => button.click()")  # without letting go of the pointer
    # The page gets shorter: the matrix moves up, away from under the pointer.
    visitor.page.wait_for_url(lambda url: asked(url).get("edits", "") == "")
    expect(canvas).not_to_have_attribute("data-before", "the answer")
    visitor.page.mouse.move(left, low - 40, steps=4)
    visitor.page.mouse.up()
    visitor.page.wait_for_url(
        lambda url: asked(url).get("edits", "").startswith("cells-decoder-all-shut-3.")
    )


@pytest.mark.sweep
def test_a_stroke_that_lost_its_brush_does_not_come_back(visitor):
    canvas = paint_by_keys(visitor)
    left, low = lower_left(canvas)
    visitor.page.mouse.move(left, low)
    visitor.page.mouse.down()
    for tool, name in (("look", "picks"), ("brush", "brush")):
        button = visitor.page.get_by_text(t(f"masks.tools.{tool}", lang="en"), exact=True)
        button.evaluate("button => button.click()")  # without letting go of the pointer
        expect(canvas).to_have_class(name)
        visitor.settle()
    visitor.page.mouse.up()
    visitor.settle()
    visitor.page.get_by_role("button", name=t("masks.undo", lang="en"), exact=True).click()
    visitor.page.wait_for_url(lambda url: asked(url).get("edits", "") == "")


def test_a_matrix_wider_than_a_phone_stays_where_it_was_scrolled_to(app, browser):
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    visitor = Visitor(page := context.new_page(), app)
    words = "My father told me that the old man lived in the small house near the river."
    with visitor.before_the_app(f"masks?{urlencode({'lang': 'en', 'text': words})}") as first:
        frame = first.locator(".edges").first
        expect(frame).to_have_class("edges beyond")
        frame.locator(".scroller").evaluate("node => { node.scrollLeft = node.scrollWidth; }")
        expect(frame).to_have_class("edges before")
    expect(first).to_have_count(0)
    frame = page.locator(".st-key-masks-matrices .edges").first
    expect(frame).to_have_class("edges before")
    scroller = frame.locator(".scroller")
    there = scroller.evaluate("node => node.scrollLeft")
    box = scroller.bounding_box()
    scroller.tap(position={"x": box["width"] / 2, "y": box["height"] - 30})
    visitor.shows(t("masks.shut_cell", lang="en"))
    visitor.settle()
    assert scroller.evaluate("node => node.scrollLeft") == there > 0
    context.close()
