"""The Heads page in real Chromium: pointing, locking, opening, pinning, and the link of it all."""

import re

import pytest
from playwright.sync_api import Locator, expect

from explorer.text import t
from tests.browser.conftest import Visitor

pytestmark = pytest.mark.browser
SENTENCE = "I like dogs."


@pytest.fixture
def heads(visitor) -> Visitor:
    """Cross-attention of a short sentence, layer 1, head 1 open, no row locked."""
    visitor.open("heads", text=SENTENCE, layer="1", head="1", row="free")
    visitor.at("head0").wait_for()
    panel(visitor, "L1·H1").wait_for()
    return visitor


def panel(visitor: Visitor, label: str) -> Locator:
    """A head that stands large, once its exact cells have come."""
    return visitor.page.locator(f'.hl .panel[aria-label="{label}"][aria-busy=false]')


def painted(canvas: Locator) -> bool:
    return bool(
        canvas.evaluate(
            """canvas => canvas.getContext("2d")
              .getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean)"""
        )
    )


def token(visitor: Visitor, place: str) -> str:
    """The token of a chip, without its gloss."""
    return str(visitor.at(place).evaluate("chip => chip.firstChild.data"))


def link_has(visitor: Visitor, *parts: str) -> None:
    for part in parts:
        visitor.page.wait_for_url(re.compile(re.escape(part)))


def test_pointing_at_a_token_reads_its_row_and_a_click_locks_it(heads):
    shown = panel(heads, "L1·H1").locator(".readout")
    quiet = shown.inner_text()
    heads.at("query0-1").hover()
    expect(shown).to_contain_text("%")
    assert painted(heads.page.locator(".hl .veil"))
    assert painted(heads.page.locator(".hl .sheets canvas")), "one for all heads, and no more"
    heads.page.mouse.move(0, 0)
    expect(shown).to_have_text(quiet)
    assert not painted(heads.page.locator(".hl .veil"))
    heads.at("query0-2").click()
    link_has(heads, "row=2")
    heads.page.mouse.move(0, 0)
    expect(shown).to_have_text("")  # the headline says it
    expect(heads.at("query0-2")).to_have_attribute("aria-pressed", "true")
    heads.page.keyboard.press("Escape")
    link_has(heads, "row=free")
    expect(heads.at("query0-2")).to_have_attribute("aria-pressed", "false")


def test_a_clicked_cell_and_one_reached_by_keys_lead_to_their_own_page(heads):
    query, key = (token(heads, place) for place in ("query0-2", "key0-1"))
    heads.at("query0-2").click()
    down = heads.at("down0")
    expect(down).to_contain_text(f"{query} →")
    strongest = down.inner_text()
    point_at(heads, query, key)
    heads.page.mouse.down()
    heads.page.mouse.up()
    link_has(heads, "row=2", "key=1")
    expect(down).to_contain_text(f"{query} → {key} · ")
    assert down.inner_text() != strongest  # it is not where the row looks most anyway
    heads.page.evaluate("window.stayed = true")
    follow(heads, down, key)
    assert heads.page.evaluate("window.stayed")  # another page of the same app, not a new visit
    heads.page.mouse.move(0, 0)  # where it rests, it would choose another cell than the locked one
    heads.page.go_back()
    heads.at("map0").focus()
    for pressed in ("ArrowRight", "ArrowLeft", "Enter"):
        heads.page.keyboard.press(pressed)
    link_has(heads, "row=2", "key=0")
    follow(heads, down, token(heads, "key0-0"))


def point_at(visitor: Visitor, query: str, key: str) -> None:
    """Move the pointer over the large heatmap until the readout names this cell."""
    box = visitor.at("map0").bounding_box()
    readout = panel(visitor, "L1·H1").locator(".readout")
    for y in range(50, int(box["height"]), 12):
        for x in range(50, int(box["width"]), 12):
            visitor.page.mouse.move(box["x"] + x, box["y"] + y)
            if f"{query} → key {key} ·" in readout.inner_text():
                return
    raise AssertionError(f"no cell {query} → {key}")


def follow(visitor: Visitor, down: Locator, key: str) -> None:
    """Press the way down and find the very same cell on its page."""
    expect(down).to_contain_text(f"→ {key} · ")
    weight = down.inner_text().split("·")[1].split("%")[0].strip()
    down.press("Enter")
    visitor.page.wait_for_url("**/score**")
    visitor.settle()
    shown = visitor.page.locator("[data-testid=stMetric]", has_text=t("score.weight", lang="en"))
    expect(shown).to_contain_text(f"{weight} %")
    link_has(visitor, "layer=1", "head=1", "row=2")


def test_a_second_click_closes_a_head_and_an_extra_opens_like_one(heads):
    heads.at("head0").click()
    link_has(heads, "instead=none")
    expect(heads.page.locator(".hl .body .panel")).to_have_count(0)
    label = "Rollout"
    heads.page.locator(".hl .head", has_text=label).click()
    panel(heads, label).wait_for()
    link_has(heads, "instead=rollout")
    heads.shows(f"{label}: ")


def test_heads_open_and_pin_by_keyboard_and_the_link_restores_them(heads):
    heads.at("head0").focus()
    heads.page.keyboard.press("ArrowRight")
    heads.page.keyboard.press("p")
    link_has(heads, "pins=1.2")
    heads.page.keyboard.press("ArrowDown")
    heads.page.keyboard.press("Enter")
    link_has(heads, "layer=2", "head=2", "pins=1.2")
    panel(heads, "L2·H2").wait_for()
    heads.page.locator(".hl .colours summary").click()
    heads.at("scalelog").check(force=True)
    link_has(heads, "scale=log")
    heads.at("sharedfalse").check(force=True)
    link_has(heads, "own_range=1")
    heads.page.goto(heads.page.url)
    panel(heads, "L1·H2").wait_for()
    panel(heads, "L2·H2").wait_for()
    expect(heads.page.locator(".hl .body .panel .title")).to_have_count(2)
    assert heads.at("scalelog").is_checked()
    assert heads.at("sharedfalse").is_checked()
    heads.page.locator(".st-key-heads-difference canvas").first.wait_for()


def test_a_click_on_the_map_switches_the_head_off_and_a_second_one_on_again(heads):
    heads.at("matter").click()
    link_has(heads, "measure=needed")
    cells = heads.page.locator(".st-key-heads-map canvas[data-at=cells0]")
    cells.wait_for()
    press = "(node) => { node.click(); return node.getRootNode().getAnimations().length; }"
    assert heads.at("by_measuretrue").evaluate(press) > 20  # pictures that move to their places
    expect(heads.page.locator(".hl .cell canvas")).to_have_count(0)
    cells.scroll_into_view_if_needed()
    off = "edits=head-encoder.blocks.0.attn-1"
    for there in (True, False):
        cells.focus()
        for key in ("ArrowLeft", "ArrowLeft", "ArrowRight", "Enter"):  # the second of the first row
            cells.press(key)
        heads.page.wait_for_url(lambda url, there=there: (off in url) == there)
        heads.settle()
        undo = heads.page.get_by_text(t("edits.reset", lang="en"))
        expect(undo.first).to_have_count(int(there))


def test_a_tab_shows_another_attention_and_a_role_opens_its_head(heads):
    heads.at("kindencoder").check(force=True)
    link_has(heads, "site=encoder")
    role = heads.page.locator(".hl .role", has_text=t("heads.roles.previous", lang="en"))
    role.click()
    expect(role).to_have_attribute("aria-pressed", "true")
    expect(heads.page.locator(".hl .head.opened")).to_have_count(1)
    link_has(heads, "layer=", "head=")


def test_a_locked_row_beyond_the_edge_of_a_phone_is_brought_into_sight(visitor):
    long = "I think that she said that he knew that they wanted to go to the park with the big dog."
    visitor.page.set_viewport_size({"width": 390, "height": 844})
    visitor.open("heads", text=long, site="encoder", layer="1", head="1", row="12", key="13")
    panel(visitor, "L1·H1").wait_for()
    box = visitor.at("query0-12").bounding_box()
    assert 0 < box["x"] < 390 - box["width"]
    scrolled = visitor.page.locator(".hl .body .edges")  # the heatmap's and the lines'
    for frame in (scrolled.first, scrolled.last):
        expect(frame).to_have_class(re.compile("before"))
        expect(frame).to_have_class(re.compile("beyond"))


@pytest.mark.sweep
def test_a_second_sentence_opens_the_same_head_and_scrolls_along(visitor):
    long = "I think that she said that he knew that they wanted to go to the park with the big dog."
    visitor.page.set_viewport_size({"width": 1000, "height": 900})
    visitor.open("heads", text=long, beside=long.replace("dog", "cat"), layer="1", head="1")
    expect(visitor.page.locator(".hl .body .panel[aria-busy=false]")).to_have_count(2)
    lines = visitor.page.locator(".hl .lines .scroller")
    lines.first.evaluate("node => { node.scrollLeft = node.scrollWidth; }")
    visitor.page.wait_for_function("node => node.scrollLeft > 40", arg=lines.last.element_handle())
    visitor.at("head9").last.click()
    expect(visitor.page.locator('.hl .panel[aria-label="L2·H2"]')).to_have_count(2)


GROWING = """(head) => {
    head.click();
    return [...head.getRootNode().querySelectorAll('.panel *')]
        .flatMap(node => node.getAnimations()).filter(({ animationName }) => !animationName).length;
}"""


def test_an_opened_head_grows_out_of_its_thumbnail_unless_motion_is_unwanted(visitor):
    visitor.open("heads", lang="en", model="en-zh", text="I love you.")
    assert visitor.at("head9").evaluate(GROWING) == 1
    visitor.page.emulate_media(reduced_motion="reduce")
    assert visitor.at("head10").evaluate(GROWING) == 0
