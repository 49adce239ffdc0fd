"""The training room as a visitor uses it: start, watch, fault, compare, keep, open elsewhere."""

import re

import pytest
from playwright.sync_api import Browser, Locator, expect

from explorer.text import t
from tests.browser.conftest import Visitor

LONG = "n_layers-1~d_model-16~n_heads-2~d_ff-16~steps-3000~batch-64"


def press(visitor: Visitor, key: str) -> None:
    visitor.page.get_by_role("button", name=t(f"training.{key}", lang="en"), exact=True).click()


def stands(visitor: Visitor, words: str) -> Locator:
    """What is said of where the training stands, once it says this."""
    found = visitor.page.get_by_text(re.compile(rf"^{words} step \d\d+ of 3000"))
    expect(found).to_be_visible()
    return found


@pytest.mark.sweep  # twelve seconds of a core; its parts are asked without the browser
def test_a_visitor_trains_breaks_compares_and_keeps(visitor: Visitor) -> None:
    page = visitor.open("training", setup=LONG, seeds="2").page
    before = page.get_by_text(re.compile("Before the first step"))
    expect(before).to_be_visible()
    press(visitor, "start")
    stands(visitor, "Training:")
    expect(before).to_be_hidden()
    # A fault in the middle: the training goes on, and its card says what gives it away.
    press(visitor, "fault_now")
    fault = t("training.faults.no_causal.title", lang="en")
    page.get_by_role("button", name=fault, exact=True).click()
    visitor.shows("What gives it away:")
    page.keyboard.press("Escape")
    press(visitor, "stop")
    stands(visitor, "Stopped after")
    # The second seed trains by now, without that fault: both stand in one chart.
    page.get_by_role("radio", name=t("training.parts.compared", lang="en")).click()
    visitor.shows("One side has a single seed")
    expect(page.get_by_text(re.compile("no causal mask from step")).first).to_be_visible()
    # What was learnt is a model like the others.
    press(visitor, "open")
    page.wait_for_url(re.compile(r"model=reverse-\d+-steps"))
    visitor.settle()
    expect(page.locator("[data-testid=stMain] canvas").first).to_be_visible()


@pytest.mark.sweep
def test_a_training_is_found_again_after_a_reload_and_by_nobody_else(
    visitor: Visitor, browser: Browser
) -> None:
    page = visitor.open("training", setup=LONG).page
    press(visitor, "start")
    stands(visitor, "Training:")
    press(visitor, "pause")
    paused = stands(visitor, "Paused after")
    page.reload()
    expect(paused).to_be_visible()
    other = browser.new_context().new_page()
    other.goto(page.url)
    expect(other.get_by_text(re.compile("belongs to another browser"))).to_be_visible()
    expect(other.get_by_text(re.compile("^Paused after step"))).to_have_count(0)
    other.close()
