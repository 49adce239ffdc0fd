"""The path in a real browser: from the first page to the causal mask."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from explorer.exhibits.path.course import STEPS
from explorer.exhibits.path.steps import where_it_shows
from explorer.text import model_name, t
from tests.browser.conftest import Visitor

pytestmark = pytest.mark.browser


def test_a_newcomer_finds_what_the_causal_mask_is_for(visitor: Visitor) -> None:
    page, lang = visitor.page, "en"
    visitor.open(lang=lang)
    page.get_by_role("button", name=t("path.new_here", lang=lang)).click()
    page.get_by_role("radio", name=t("path.groups.masks", lang=lang)).click()
    title = t("path.steps.purpose.title", lang=lang)
    expect(page.get_by_role("heading", name=re.compile(re.escape(title)))).to_be_in_viewport()
    visitor.settle()
    page.locator(".stRadio label:has(input)").first.click()
    expect(page.locator(".st-key-path-options")).to_be_visible()
    visitor.settle()
    asked = parse_qs(urlsplit(page.url).query)
    assert asked["answers"][0].startswith("purpose.1.")


def test_the_sidebar_follows_a_lesson_to_a_model_and_sentence_that_show_it(
    visitor: Visitor,
) -> None:
    """The lesson is a fragment: its button alone would leave the sidebar as it was."""
    lesson, model, text = "cross", "stories", "Tom"
    page = visitor.open("path", lang="en", lesson=lesson, model=model, text=text).page
    sentence = page.get_by_role("textbox", name=t("sidebar.sentence", lang="en"))
    chosen = page.locator(".st-key-sidebar-model input")
    expect(sentence).to_have_value(text)
    expect(chosen).to_have_value(model_name(model, lang="en"))
    there = where_it_shows(STEPS[lesson], "en")
    page.locator(f".st-key-path-there-{lesson} button").click()
    expect(sentence).to_have_value(there[1])
    expect(chosen).to_have_value(model_name(there[0], lang="en"))
    assert there != (model, text)
