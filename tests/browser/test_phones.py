"""On a phone: the bar with the page's name, the sidebar that goes away, edges, what comes first."""

from itertools import pairwise
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, expect

from explorer.text import t
from tests.browser.conftest import Visitor

pytestmark = pytest.mark.browser


@pytest.fixture
def phone(visitor) -> Visitor:
    visitor.page.set_viewport_size({"width": 390, "height": 844})
    return visitor


def word(key: str) -> str:
    return t(key, lang="en")


def menu(phone: Visitor) -> Locator:
    return phone.page.get_by_label(word("frame.page"), exact=True)


def open_sidebar(phone: Visitor) -> None:
    phone.page.get_by_role("button", name=word("frame.more"), exact=True).click()
    box = phone.page.get_by_role("textbox", name=word("sidebar.sentence"), exact=True)
    expect(box).to_be_in_viewport()


def test_the_bar_names_the_page_and_leads_to_the_others(phone):
    phone.open(lang="en", text="I love you.")
    expect(menu(phone)).to_be_in_viewport()
    expect(menu(phone)).to_have_value("start")
    menu(phone).select_option("alignment")
    expect(phone.page).to_have_title(f"{word('alignment.title')} · Headlight")
    phone.settle()
    tab = phone.page.locator(".st-key-views").get_by_text(word("alignment.title"), exact=True)
    expect(tab).to_be_in_viewport(ratio=0.9)  # the last of a row that is wider than the screen
    assert parse_qs(urlsplit(phone.page.url).query)["text"] == ["I love you."]
    phone.page.go_back()
    expect(phone.page).to_have_title(f"{word('start.title')} · Headlight")
    expect(menu(phone)).to_have_value("start")


def test_another_sentence_runs_from_the_bar(phone):
    phone.open("heads", lang="en", text="I love you.")
    bar = phone.page.locator(".st-key-frame")
    box = bar.get_by_role("textbox", name=word("frame.sentence"))
    run = bar.get_by_role("button", name=word("frame.run"), exact=True)
    expect(run).to_be_in_viewport()
    expect(box).to_have_value("I love you.")
    box.fill("She sings.")
    run.click()
    expect(phone.page.locator("[class*=st-key-sentence]").first).to_contain_text("She sings.")
    phone.settle()
    expect(box).to_have_value("She sings.")
    assert parse_qs(urlsplit(phone.page.url).query)["text"] == ["She sings."]
    box.fill("He sings.")
    box.press("Enter")
    expect(phone.page.locator("[class*=st-key-sentence]").first).to_contain_text("He sings.")


def test_the_sidebar_goes_once_something_was_chosen_in_it(phone):
    phone.open("masks", lang="en", text="I love you.")
    sidebar = phone.page.get_by_test_id("stSidebar")
    box = sidebar.get_by_role("textbox", name=word("sidebar.sentence"), exact=True)
    run = sidebar.get_by_role("button", name=word("sidebar.run"), exact=True)
    for sentence in ("She sings.", "She sings."):  # the second press changes nothing
        open_sidebar(phone)
        box.fill(sentence)
        run.click()
        expect(box).not_to_be_in_viewport()
        phone.settle()
        assert parse_qs(urlsplit(phone.page.url).query)["text"] == [sentence]
    open_sidebar(phone)
    sidebar.get_by_role("button", name=word("sidebar.examples")).click()
    phone.page.locator("[data-testid=stPopoverBody] button").first.click()
    expect(box).not_to_be_in_viewport()


@pytest.mark.parametrize(
    ("place", "picture"),
    [
        ("heads", ".hl canvas"),
        pytest.param("score", ".js-plotly-plot", marks=pytest.mark.sweep),
        pytest.param("masks", ".hl canvas", marks=pytest.mark.sweep),
        pytest.param("positions", ".js-plotly-plot", marks=pytest.mark.sweep),
        pytest.param("blocks", ".js-plotly-plot", marks=pytest.mark.sweep),
        pytest.param("model", ".machine", marks=pytest.mark.sweep),
    ],
)
def test_what_a_picture_says_stands_above_it(phone, place, picture):
    phone.open(place, lang="en", text="I love you.")
    drawn = phone.page.locator(f"[data-testid=stMain] {picture}").first
    drawn.wait_for()
    said = phone.page.locator("[class*=st-key-reading]").first.bounding_box()
    box = drawn.bounding_box()
    assert said is not None
    assert box is not None
    assert said["y"] + said["height"] <= box["y"]
    if place == "blocks":  # a chart that needs more than a phone's width fades where it goes on
        wide = phone.page.locator("[class*=st-key-wide-]").first
        before = "(node) => getComputedStyle(node).getPropertyValue('--hl-before').trim()"
        beyond = before.replace("before", "beyond")
        assert (wide.evaluate(before), wide.evaluate(beyond)) == ("0px", "36px")
        wide.evaluate("(node) => { node.scrollLeft = node.scrollWidth }")
        phone.page.wait_for_function(
            "() => getComputedStyle(document.querySelector('[class*=st-key-wide-]'))"
            ".getPropertyValue('--hl-beyond').trim() === '0px'"
        )
        assert wide.evaluate(before) == "36px"
    phone.fits(390)


@pytest.mark.sweep
def test_labels_of_tokens_stand_clear_of_each_other(phone):
    phone.open("blocks", text="When the old man saw that his little dog had run away, he ran too.")
    place = phone.page.locator(".st-key-wide-blocks-statistics-scale")
    labels = place.locator(".annotation")
    labels.first.wait_for(state="attached")
    boxes = labels.evaluate_all(
        """all => all.map(one => one.getBoundingClientRect())
          .map(({ left, right, y }) => [left, right, y])"""
    )
    first = [box for box in boxes if box[2] == boxes[0][2]]
    assert len(first) > 15
    assert all(one[1] <= other[0] for one, other in pairwise(first))
    assert place.evaluate("place => place.scrollWidth > place.clientWidth")
