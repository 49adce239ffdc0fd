"""Causes in real Chromium with the shipped translator: a word is typed, and one is refused."""

from urllib.parse import parse_qs, urlsplit

import pytest

from explorer.text import t
from tests.browser.conftest import Visitor

pytestmark = pytest.mark.browser


def test_why_this_word_and_not_another_one_that_is_typed(visitor: Visitor) -> None:
    """Why 她 and not 他: the second word is typed, and one that is no token is refused."""
    visitor.open("causes", part="writes", row="0", text="She reads a book every morning.")
    box = visitor.page.get_by_test_id("stSelectbox").filter(has_text=t("causes.rival", lang="en"))
    field = box.locator("input")
    field.fill("他")
    field.press("Enter")
    visitor.page.wait_for_url(lambda url: "rival" in parse_qs(urlsplit(url).query))
    visitor.shows("times as probable as “他”")
    assert visitor.page.locator(".js-plotly-plot .barlayer path").count() > 10
    field.fill("她每他")
    field.press("Enter")
    visitor.shows("is not one token of this model")
    visitor.shows("times as probable as “他”")
