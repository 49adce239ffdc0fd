"""Every page: axe-core finds no serious violation, in the light theme and after a change to the
dark one, and a window as narrow as a phone's holds it. Every other page is read in Chinese.
"""

from itertools import cycle

import pytest
from axe_playwright_python.sync_playwright import Axe
from cores import core
from playwright.sync_api import Page

from explorer.pages import HOME, PAGES
from explorer.text import LANGUAGES
from tests.browser.conftest import Visitor

OF_THE_PAGE = (
    ".js-plotly-plot, .hl canvas, [data-testid=stButtonGroup], [data-testid=stBaseButton-primary],"
    ".st-key-card"
)
NAMES = [page.name for page in PAGES]
CORE = [("heads", lang) for lang in LANGUAGES]
"""The page that `make test` examines: it holds most kinds of view and control. A page takes ten
seconds of a core, so the others wait for `make sweep` and the public CI."""
pytestmark = pytest.mark.browser


@pytest.mark.parametrize(("name", "lang"), core(zip(NAMES, cycle(LANGUAGES), strict=False), CORE))
def test_no_serious_violation_and_no_scrolling_sideways(visitor, name, lang):
    page = visitor.page
    page.emulate_media(color_scheme="light")
    visitor.open("" if name == HOME else name, lang=lang)
    # Something of the page itself: the sidebar stands before it.
    page.locator(f"[data-testid=stMain] :is({OF_THE_PAGE})").first.wait_for()
    visitor.settle()
    assert page.locator("html").get_attribute("lang") == lang
    assert lasting(visitor) == []

    visitor.darken()
    assert lasting(visitor, runOnly=["color-contrast"]) == []  # nothing else depends on the theme

    page.set_viewport_size({"width": 390, "height": 844})
    visitor.fits(390)
    visitor.settle()
    visitor.fits(390)
    visitor.labels_stand_clear()


def lasting(visitor: Visitor, **options: object) -> list[tuple[str, list[str]]]:
    """Serious violations that stay: what is being drawn is pale for a moment."""
    found = serious(visitor.page, **options)
    for _ in range(3):
        if found:
            visitor.settle()
            found = serious(visitor.page, **options)
    return found


def serious(page: Page, **options: object) -> list[tuple[str, list[str]]]:
    """Each serious violation with its first elements and what is wrong with them."""
    found = Axe().run(page, options={"resultTypes": ["violations"], **options})
    return [
        (
            violation["id"],
            [node["html"] + node["failureSummary"] for node in violation["nodes"][:3]],
        )
        for violation in found.response["violations"]
        if violation["impact"] in ("serious", "critical")
    ]
