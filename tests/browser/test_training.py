"""The training room as a visitor uses it: start, watch, fault, wind back, compare, keep, go on."""

import re

from playwright.sync_api import Browser, expect

from explorer.text import t
from tests.browser.conftest import Visitor

QUICK = "d_model-16~n_layers-1~n_heads-2~d_ff-16~batch-64"


def press(visitor: Visitor, key: str) -> None:
    visitor.page.get_by_role("button", name=t(f"training.{key}", lang="en"), exact=True).click()


def test_a_visitor_trains_breaks_compares_and_keeps(visitor: Visitor, browser: Browser) -> None:
    page = visitor.open("training", setup=f"{QUICK}~steps-3000").page
    before = page.get_by_text(re.compile("Before the first step"))
    expect(before).to_be_visible()
    press(visitor, "start")
    running = page.get_by_text(re.compile(r"^Training: step \d\d+ of 3000"))
    expect(running).to_be_visible()
    expect(before).to_be_hidden()

    # A fault in the middle: the training goes on, and its card says what gives it away.
    press(visitor, "fault_now")
    page.get_by_text(t("training.faults.no_causal.title", lang="en"), exact=True).click()
    visitor.shows("What gives it away:")
    page.keyboard.press("Escape")
    press(visitor, "pause")
    paused = page.get_by_text(re.compile(r"^Paused after step \d+ of 3000"))
    expect(paused).to_be_visible()

    # Found again after a reload, by its link; in another browser the same link finds nothing.
    link = page.url
    assert "room=" in link
    page.reload()
    expect(paused).to_be_visible()
    other = browser.new_context().new_page()
    other.goto(link)
    expect(other.get_by_text(re.compile("belongs to another browser"))).to_be_visible()
    expect(other.get_by_text(re.compile("^Paused after step"))).to_have_count(0)
    other.close()
    press(visitor, "stop")
    expect(page.get_by_text(re.compile(r"^Stopped after step \d+ of 3000"))).to_be_visible()

    # Another one, beside the first.
    visitor.open("training", **_params(page.url) | {"setup": f"{QUICK}~steps-20~norm-rmsnorm"})
    press(visitor, "start")
    expect(page.get_by_text(re.compile("^Done: 20 of 20"))).to_be_visible()
    page.get_by_role("radio", name=t("training.parts.compared", lang="en")).click()
    visitor.shows("nobody can tell whether that is more than chance")

    # What was learnt is a model like the others.
    press(visitor, "open")
    page.wait_for_url(re.compile(r"model=reverse-20-steps"))
    visitor.settle()
    expect(page.locator("[data-testid=stMain] canvas").first).to_be_visible()


def _params(url: str) -> dict[str, str]:
    return dict(re.findall(r"[?&](\w+)=([^&]*)", url))
