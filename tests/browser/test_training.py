"""A training in real Chromium: only its own browser finds it again."""

import re

import pytest
from playwright.sync_api import Locator, expect

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


@pytest.mark.sweep
def test_a_training_is_found_again_after_a_reload_and_by_nobody_else(visitor, browser):
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
