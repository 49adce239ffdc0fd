"""axe-core finds no serious violation on any page, in the light theme and in the dark one."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from explorer.pages import PAGES
from tests.browser.conftest import PATIENCE, Visitor

OF_THE_PAGE = (
    ".js-plotly-plot, .hl canvas, [data-testid=stButtonGroup], [data-testid=stBaseButton-primary]"
)

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
    visitor = Visitor(page, app).open("" if place == PAGES[0].name else place)
    # Something of the page itself: the sidebar stands before it.
    page.locator(f"[data-testid=stMain] :is({OF_THE_PAGE})").first.wait_for()
    visitor.settle()
    found = serious(page)
    for _ in range(3):  # what is being drawn is pale for a moment; what stays is a violation
        if found:
            visitor.settle()
            found = serious(page)
    context.close()
    assert found == []


def serious(page: Page) -> list[tuple[str, list[str]]]:
    """Each serious violation with its first elements and what is wrong with them."""
    return [
        (
            violation["id"],
            [node["html"] + node["failureSummary"] for node in violation["nodes"][:3]],
        )
        for violation in Axe().run(page).response["violations"]
        if violation["impact"] in ("serious", "critical")
    ]
