"""The path in a real browser: from the first page to the causal mask."""

import pytest
from playwright.sync_api import expect

from explorer.exhibits.tour.course import STEPS
from explorer.exhibits.tour.steps import where_it_shows
from explorer.text import model_name, t

pytestmark = pytest.mark.browser


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
