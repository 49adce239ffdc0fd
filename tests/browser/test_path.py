"""The path in a real browser: from the first page to the causal mask, in both languages."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from explorer.text import t
from tests.browser.conftest import Visitor

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("lang", ["en", pytest.param("zh", marks=pytest.mark.sweep)])
def test_a_newcomer_finds_what_the_causal_mask_is_for(visitor: Visitor, lang: str) -> None:
    page = visitor.page
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
