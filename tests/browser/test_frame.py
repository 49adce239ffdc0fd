"""The frame round the pages in real Chromium: headings, tabs, the back button."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from explorer.text import t
from tests.browser.conftest import Visitor

pytestmark = pytest.mark.browser


def test_back_leaves_a_page_of_the_menu_in_one_press(visitor: Visitor) -> None:
    visitor.open(lang="en", text="I love you.")
    for name in ("masks", "blocks"):
        visitor.page.get_by_role("link", name=t(f"{name}.title", lang="en"), exact=True).click()
        expect(visitor.page).to_have_title(f"{t(f'{name}.title', lang='en')} · Headlight")
        visitor.page.wait_for_url(f"**/{name}?*text=*")
        visitor.settle()
    visitor.page.go_back()
    expect(visitor.page.locator("h1")).to_have_text(t("masks.title", lang="en"))
    assert urlsplit(visitor.page.url).path == "/masks"
    visitor.settle()
    visitor.page.go_back()
    expect(visitor.page.locator("h1")).to_have_text(t("heads.title", lang="en"))
    assert urlsplit(visitor.page.url).path == "/"
