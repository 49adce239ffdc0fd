"""The menu of ten entries in real Chromium, and where the picture of each view begins."""

import pytest
from playwright.sync_api import expect

from explorer.pages import MENU
from explorer.text import t
from tests.browser.conftest import Visitor

pytestmark = pytest.mark.browser


def test_every_view_is_two_clicks_away_and_what_a_model_lacks_is_dimmed(visitor: Visitor) -> None:
    visitor.open(lang="en", model="stories")
    links = visitor.page.get_by_test_id("stTopNavLink")
    expect(links).to_contain_text([t(f"menu.{group.name}", lang="en") for group in MENU])
    for group in MENU:
        links.filter(has_text=t(f"menu.{group.name}", lang="en")).click()
        row = visitor.page.locator(".st-key-views").get_by_test_id("stPageLink-NavLink")
        if len(group.views) == 1:
            expect(row).to_have_count(0)
            continue
        named = [
            t(f"{'shelf' if name == 'models' else name}.title", lang="en") for name in group.views
        ]
        expect(row).to_contain_text(named)
        expect(visitor.page.locator("h1")).to_have_text(named[0])
    visitor.open("cell", lang="en", model="stories")
    expect(links.filter(has_text=t("menu.attention", lang="en"))).to_have_attribute(
        "aria-current", "page"
    )
    expect(row.nth(2)).to_have_attribute("disabled", "")
