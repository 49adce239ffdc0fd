"""Start and the path in real Chromium: it plays, pauses and steps; stations open; a mask changes
the output; a lesson leads to where it shows.
"""

import pytest
from playwright.sync_api import Locator, expect

from explorer.exhibits.start.choices import with_mask
from explorer.exhibits.tour.course import STEPS
from explorer.exhibits.tour.steps import where_it_shows
from explorer.library import open_model
from explorer.runs.edits import MaskSwitch
from explorer.runs.trace import trace
from explorer.text import model_name, t
from tests.browser.conftest import Visitor, asked

pytestmark = pytest.mark.browser
TEXT = "She reads a book every morning."


def word(key: str, **values: object) -> str:
    return t(f"components.start.{key}", lang="en", **values)


def said(visitor: Visitor) -> Locator:
    return visitor.page.locator(".hl .said")


def count(visitor: Visitor) -> int:
    return int(visitor.page.locator(".player .count").inner_text().split("/")[0])


def stop(visitor: Visitor) -> None:
    """Pause the picture: it plays by itself; on a busy machine it has come to its end, from where
    it begins anew."""
    visitor.at("play").evaluate(
        "(node) => { node.classList.contains('on') || node.click(); node.click(); node.focus(); }"
    )


def scrub(visitor: Visitor, share: float) -> None:
    visitor.at("scrub").evaluate(
        "(node, share) => { node.value = share; node.dispatchEvent(new Event('input')) }", share
    )


def test_it_plays_pauses_and_steps(visitor):
    output = trace(open_model("en-zh"), TEXT).output
    visitor.open(lang="en", text=TEXT)
    page = visitor.page
    play = page.get_by_role("button", name=word("play"), exact=True)
    stop(visitor)
    play.wait_for()
    scrub(visitor, 0.3)
    shown = page.locator(".player input").input_value()
    page.evaluate(
        "() => new Promise((frame) => { requestAnimationFrame(() => setTimeout(frame)); })"
    )
    assert page.locator(".player input").input_value() == shown
    now = count(visitor)
    page.keyboard.press("ArrowRight")
    assert count(visitor) == now + 1
    page.keyboard.press("ArrowLeft")
    page.get_by_role("button", name=word("back")).click()
    assert count(visitor) == max(0, now - 1)
    scrub(visitor, 1)
    expect(said(visitor)).to_have_text(output)
    play.focus()
    page.keyboard.press("Space")
    expect(said(visitor)).not_to_have_text(output)
    expect(said(visitor)).to_have_text(output)  # it comes to its end


def test_keys_work_after_the_mouse_and_a_folded_sidebar_is_no_tab_stop(visitor):
    page = visitor.open(lang="en", text=TEXT).page
    stop(visitor)
    place = page.locator(".stations button").first.bounding_box()
    assert place is not None
    page.mouse.click(place["x"] + 0.3 * place["width"], place["y"] + 0.45 * place["height"])
    page.locator(".hl .open").wait_for()
    page.keyboard.press("Escape")
    page.locator(".hl .open").wait_for(state="detached")
    now = count(visitor)
    page.keyboard.press("ArrowRight" if now == 0 else "ArrowLeft")
    assert count(visitor) != now
    expect(page.locator("[data-testid=stMain]:focus")).to_have_count(0)  # it would be framed
    expect(page.locator("[data-testid=stSidebar]")).to_have_attribute("inert", "")


def test_a_mask_switched_off_gives_another_sentence_and_shows_the_difference(visitor):
    visitor.open(lang="en", text=TEXT)
    model = open_model("en-zh")
    before = trace(model, TEXT).output
    after = trace(model, TEXT, edits=(MaskSwitch("causal", False),)).output
    assert before != after
    visitor.page.get_by_text(t("start.masks.causal", lang="en"), exact=True).click()
    expect(said(visitor).locator("del").first).to_be_visible()
    left = said(visitor).evaluate(
        "(node) => [...node.childNodes].filter((each) => each.tagName !== 'DEL')"
        ".map((each) => each.textContent).join('')"
    )
    assert left == after
    visitor.page.wait_for_url("**edits=causal-off**")
    visitor.page.get_by_text(t("start.masks.trained", lang="en"), exact=True).click()
    expect(said(visitor)).to_have_text(before)


def test_a_station_opens_in_place_by_keyboard_and_leads_to_its_page(visitor):
    visitor.open(lang="en", text=TEXT)
    page = visitor.page
    name = word(
        "opens",
        place=", ".join(
            (
                t("streams.tgt", lang="en"),
                t("start.block", lang="en", number=2),
                t("start.kinds.cross", lang="en"),
            )
        ),
        heads=8,
    )
    station = page.get_by_role("button", name=name)
    station.press("Enter")
    opened = page.locator(".hl .open")
    expect(opened.get_by_role("heading")).to_contain_text(t("start.kinds.cross", lang="en"))
    page.wait_for_url("**door=head**")
    close = page.get_by_role("button", name=word("close"), exact=True)
    expect(close).to_be_focused()
    close.press("Escape")
    expect(station).to_be_focused()
    station.press("Enter")
    other = page.get_by_role("button", name=word("head_after"))
    other.click()
    expect(opened.get_by_role("heading")).to_contain_text(word("open_head", head=2))
    expect(other).to_be_focused()
    softmax = opened.get_by_role("button", name=word("softmax"))
    softmax.click()
    expect(softmax).to_have_attribute("aria-pressed", "true")
    expect(opened.locator(".readout")).to_have_text(word("told_softmax"))
    opened.get_by_role("link", name=word("to_heads")).click()
    page.wait_for_url("**/heads?**")
    link = asked(page.url)
    assert (link["text"], link["layer"], link["head"]) == (TEXT, "2", "2")
    page.go_back()
    page.locator(".hl .open").wait_for()
    page.get_by_role("button", name=word("close"), exact=True).press("Escape")
    expect(page.locator(".hl .open")).to_have_count(0)


def test_a_refused_text_is_mended_in_its_line(visitor):
    """A link without a text shows an example; the box then takes the user's own, and no other."""
    visitor.open(lang="en", text="")
    box = visitor.page.locator(".st-key-start-text input")  # the sidebar has another one
    empty = visitor.page.get_by_text(t("problems.empty", lang="en"))
    for mended in ("I like dogs.", "I like cats."):
        expect(empty).to_have_count(1)
        box.press_sequentially(mended, delay=60)
        expect(said(visitor)).to_have_text(trace(open_model("en-zh"), mended).output)
        expect(empty).to_have_count(0)
        expect(box).to_be_focused()
        for _ in mended:
            box.press("Backspace")


def test_who_asks_for_less_motion_sees_it_still_and_whole(visitor):
    visitor.page.emulate_media(reduced_motion="reduce")
    visitor.open(lang="en", text=TEXT)
    expect(said(visitor)).to_have_text(trace(open_model("en-zh"), TEXT).output)
    expect(visitor.page.get_by_role("button", name=word("play"), exact=True)).to_be_visible()
    visitor.page.emulate_media(reduced_motion="no-preference")


def test_the_sidebar_follows_a_lesson_to_a_model_and_sentence_that_show_it(visitor):
    """The lesson is a fragment: its button alone would leave the sidebar as it was."""
    lesson, model, text = "cross", "stories", "Tom"
    page = visitor.open("tour", lang="en", lesson=lesson, model=model, text=text).page
    sentence = page.get_by_role("textbox", name=t("sidebar.sentence", lang="en"))
    chosen = page.locator(".st-key-sidebar-model input")
    expect(sentence).to_have_value(text)
    expect(chosen).to_have_value(model_name(model, lang="en"))
    there = where_it_shows(STEPS[lesson], "en")
    page.locator(f".st-key-tour-there-{lesson} button").click()
    expect(sentence).to_have_value(there[1])
    expect(chosen).to_have_value(model_name(there[0], lang="en"))
    assert there != (model, text)


PLACES = """key => {
    const within = document.getElementById("hl-first") ?? document.querySelector(`.st-key-${key}`);
    const host = [...within.querySelectorAll("div")].find((node) => node.shadowRoot);
    const box = host.shadowRoot.querySelector(".hl").getBoundingClientRect();
    return [box.x, box.y, box.width, box.height].map(Math.round);
}"""
SHIFTS = """() => new PerformanceObserver((list) => {
    for (const { value } of list.getEntries()) window.shift = (window.shift ?? 0) + value;
}).observe({ type: "layout-shift", buffered: true })"""


FIRSTS = (
    ("?", "start-picture"),
    ("heads?", "heads-view"),
    ("masks?", "masks-matrices"),
    ("masks?embed=1&", "masks-matrices"),
    ("masks?edits=causal-off&", "masks-matrices"),
    ("heads?edits=causal-off&", "heads-view"),
    ("heads?beamer=1&", "heads-view"),
    ("decoding?", "decoding-film"),
)


@pytest.mark.parametrize(
    ("place", "key", "width", "lang"),
    [
        # `make test` takes each place at one width, by turns.
        pytest.param(place, key, *screen, marks=() if at % 2 == turn else pytest.mark.sweep)
        for at, (place, key) in enumerate(FIRSTS)
        for turn, screen in enumerate(((1440, "en"), (390, "zh")))
    ],
)
def test_the_picture_is_there_before_the_app_and_stays_where_it_is(
    visitor, place, key, width, lang
):
    page = visitor.page
    page.set_viewport_size({"width": width, "height": 900})
    page.add_init_script(f"({SHIFTS})()")
    with visitor.before_the_app(f"{place}lang={lang}") as first:
        before = page.evaluate(PLACES, key)
    expect(first).to_have_count(0)
    assert page.evaluate(PLACES, key) == before
    visitor.settle()
    assert page.evaluate("window.shift ?? 0") < 0.02  # Streamlit's menu: 0.003 to 0.012
    page.set_viewport_size({"width": 1440, "height": 1000})


def test_without_the_app_the_picture_plays(visitor):
    page = visitor.page
    page.route("**/_stcore/**", lambda route: None)
    output = trace(open_model("en-zh"), TEXT).output
    page.goto(f"{visitor.address}/?lang=en&text={TEXT}", wait_until="commit")
    expect(page.locator("#hl-first .said")).to_have_text(output)
    page.unroute_all()


def test_what_is_typed_and_clicked_before_the_app_is_there_is_done(visitor):
    """Until the app has drawn all, the box and the picture of the server's page are there."""
    page, wanted = visitor.page, "I like dogs."
    with visitor.before_the_app(f"?lang=en&text={TEXT}") as first:
        first.get_by_text(t("start.masks.alone", lang="en"), exact=True).click()
        first.get_by_role("button", name=word("waves"), exact=True).click()
        box = first.get_by_role("textbox")
        box.fill("")
        box.focus()
    page.keyboard.type(wanted, delay=300)  # while the app takes over
    page.wait_for_url("**text=I+like+dogs.**")
    own = page.locator(".st-key-start-text input")
    expect(own).to_be_focused()
    expect(own).to_have_value(wanted)
    alone = trace(open_model("en-zh"), wanted, edits=with_mask((), "alone")).output
    expect(page.get_by_role("radio", name=t("start.masks.alone", lang="en"))).to_be_checked()
    expect(page.locator(".hl .open h2")).to_have_text(word("waves"))
    expect(said(visitor)).to_contain_text(alone)


ROUNDED = """new MutationObserver((_, observer) => {
    const place = document.getElementById("hl-first");
    if (!place) return;
    observer.disconnect();
    const first = JSON.parse(place.dataset.first);
    const change = (number) => number.slice(0, -1) + "1";
    first.payload = btoa(atob(first.payload).replace(/0\\.\\d{4,}/g, change));
    place.dataset.first = JSON.stringify(first);
}).observe(document, { childList: true, subtree: true })"""
"""Gives the numbers of a first picture other last digits, as if another computer had drawn it."""


def test_what_is_done_in_the_first_picture_stays_where_the_app_s_numbers_differ(visitor):
    page, counted = visitor.page, visitor.page.locator(".player .count")
    page.add_init_script(ROUNDED)
    with visitor.before_the_app("?lang=en"):
        stop(visitor)
        scrub(visitor, 0.3)
        shown = counted.inner_text()
    visitor.settle()
    expect(counted).to_have_text(shown)
    with visitor.before_the_app("decoding?lang=en"):
        for _ in range(2):
            visitor.at("next").click()
        visitor.at("speed").select_option(index=3)
    visitor.settle()
    expect(counted).to_contain_text("3 /")
    expect(visitor.at("speed")).to_have_value("4")
    page.wait_for_url("**step=3**")
    with visitor.before_the_app("heads?lang=en") as first:
        first.locator(".colours summary").click()
    visitor.settle()
    expect(page.locator(".hl .colours summary")).to_be_focused()
    expect(visitor.at("scalelog")).to_be_visible()
