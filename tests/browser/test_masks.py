"""Masks under test in real Chromium with the shipped translator: certificate, clinic, lab."""

from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, expect

from explorer.text import t
from tests.browser.conftest import PATIENCE, Visitor

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("lang", ["en"])
def test_the_shipped_model_keeps_every_promise_and_changed_masks_do_not(
    visitor: Visitor, lang: str
) -> None:
    visitor.open("certificate", lang=lang)
    visitor.page.get_by_role("button", name=t("certificate.run", lang=lang, count=12)).click()
    kept = t("certificate.kept", lang=lang, count=12, largest="").split("。")[0].split(".")[0]
    visitor.shows(kept)
    visitor.page.locator("canvas").first.wait_for()
    visitor.page.wait_for_url("**tested=1**")
    visitor.open("certificate", lang=lang, tested="1", edits="causal-off")
    visitor.shows(t("certify.future_leak.broken", lang=lang)[:20])
    assert visitor.page.get_by_text(kept).count() == 0


@pytest.mark.parametrize("lang", ["zh"])
def test_a_fault_of_the_clinic_shows_its_figure(visitor: Visitor, lang: str) -> None:
    visitor.open("clinic", lang=lang, case="no_mask")
    visitor.shows(t("clinic.no_mask.title", lang=lang))
    visitor.page.locator(".js-plotly-plot .heatmaplayer").first.wait_for(state="attached")
    visitor.shows(t("clinic.figures.first_row_self", lang=lang))
    visitor.page.get_by_text(t("clinic.groups.fills", lang=lang), exact=True).click()
    visitor.shows(t("clinic.small_fill.title", lang=lang))
    visitor.page.get_by_text(t("clinic.empty_row_nan.title", lang=lang), exact=True).first.click()
    visitor.page.wait_for_url("**case=empty_row_nan**")
    visitor.page.locator(".js-plotly-plot .annotation", has_text="NaN").first.wait_for()


def edits(url: str) -> str:
    """What a link says was changed."""
    return parse_qs(urlsplit(url).query).get("edits", [""])[0]


def test_cells_are_painted_by_a_drag_and_undone(visitor: Visitor) -> None:
    first = "cells-decoder-all-shut-1.0"
    visitor.open("masks", text="I like dogs.", pads="0", site="decoder", layer="1", head="1")
    visitor.page.get_by_text(t("masks.brush", lang="en"), exact=True).click()
    visitor.shows(t("masks.scope_layer", lang="en"))
    visitor.settle()
    canvas = visitor.page.locator("canvas[data-at=matrix]").nth(1)
    canvas.focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):  # the first press shows where one stands
        canvas.press(key)
    visitor.page.wait_for_url(lambda url: edits(url) == first)
    visitor.settle()
    visitor.shows(t("edits.cell_shut", lang="en", query=1, key=0))
    box = canvas.bounding_box()
    assert box is not None
    # From the lower left cell along the first column upwards, by the pointer.
    left, low = box["x"] + box["width"] * 0.45, box["y"] + box["height"] - 8
    visitor.page.mouse.move(left, low)
    visitor.page.mouse.down()
    visitor.page.mouse.move(left, low - 40, steps=4)
    visitor.page.mouse.up()
    visitor.settle()
    visitor.page.wait_for_url(lambda url: edits(url) not in ("", first))
    visitor.settle()
    visitor.page.get_by_role("button", name=t("masks.undo", lang="en"), exact=True).click()
    visitor.page.wait_for_url(lambda url: edits(url) == first)
    visitor.settle()
    visitor.page.get_by_role("button", name=t("masks.undo", lang="en"), exact=True).click()
    visitor.page.wait_for_url(lambda url: edits(url) == "")
    visitor.settle()
    visitor.page.get_by_role("button", name=t("masks.redo", lang="en"), exact=True).click()
    visitor.page.wait_for_url(lambda url: edits(url) == first)


def test_a_matrix_wider_than_a_phone_stays_where_it_was_scrolled_to(
    app: str, browser: Browser
) -> None:
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    words = "My father told me that the old man lived in the small house near the river."
    visitor = Visitor(page, app).open("masks", text=words)
    frame = page.locator(".edges").first
    expect(frame).to_have_class("edges beyond")
    scroller = frame.locator(".scroller")
    scroller.evaluate("node => { node.scrollLeft = node.scrollWidth; }")
    expect(frame).to_have_class("edges before")
    there = scroller.evaluate("node => node.scrollLeft")
    box = scroller.bounding_box()
    assert box is not None
    scroller.tap(position={"x": box["width"] / 2, "y": box["height"] - 30})
    visitor.shows(t("masks.shut_cell", lang="en"))
    visitor.settle()
    assert scroller.evaluate("node => node.scrollLeft") == there > 0
    context.close()
