"""axe-core finds no serious violation on any page, in the light theme and in the dark one."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from explorer.pages import PAGES
from tests.browser.conftest import PATIENCE, Visitor

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("place", [page.name for page in PAGES])
def test_no_serious_violation(app: str, browser: Browser, place: str, scheme: str) -> None:
    context = browser.new_context(
        viewport={"width": 1440, "height": 1000},
        locale="en-GB",
        color_scheme="dark" if scheme == "dark" else "light",
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    # The first page of the menu lives at the root.
    Visitor(page, app).open("" if place == PAGES[0].name else place)
    page.locator(".js-plotly-plot, .hl canvas, [data-testid=stExpander]").first.wait_for()
    # What a run draws anew is pale until it is there.
    page.wait_for_function(
        "() => [...document.querySelectorAll('[data-testid=stElementContainer]')]"
        ".every((element) => getComputedStyle(element).opacity === '1')"
    )
    found = [
        (violation["id"], [(node["target"], node["html"][:200]) for node in violation["nodes"][:3]])
        for violation in Axe().run(page).response["violations"]
        if violation["impact"] in ("serious", "critical")
    ]
    context.close()
    assert found == []
