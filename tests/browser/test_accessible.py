"""Every page in both languages, for a model of each family, in both themes, on a screen and on a
phone: axe-core finds no serious violation, nothing is wider than the window, no picture is empty.
"""

from itertools import product

import pytest
from axe_playwright_python.sync_playwright import Axe
from cores import core
from playwright.sync_api import Page

from explorer.pages import HOME, PAGES
from explorer.text import LANGUAGES
from tests.browser.app import LOOKS, SETTLED, free_port, serving
from tests.browser.conftest import Visitor

MODELS = ("en-zh", "stories", "masked-en")
"""A translator, a model of one text, an encoder."""
CORE = [("heads", "en-zh", "zh")]
"""The page that `make test` examines: it holds most kinds of view and control. A page takes ten
seconds of a core, so the others wait for `make sweep` and the public CI."""
SCREENS = ((1440, 1000), (390, 844))
EMPTY_CHARTS = """charts => charts
    .filter(chart => !chart.data?.length || chart.getBoundingClientRect().width < 20)
    .map(chart => chart.getAttribute('aria-label') || 'a chart')"""
EMPTY_CANVASES = """canvases => canvases.filter(canvas => {
    // Lines between words appear with the pointer.
    if (!canvas.checkVisibility() || canvas.classList.contains('lines')) return false;
    if (!canvas.width || !canvas.height) return true;
    const blank = document.createElement('canvas');
    [blank.width, blank.height] = [canvas.width, canvas.height];
    return canvas.toDataURL() === blank.toDataURL();
}).map(canvas => canvas.getAttribute('aria-label') || canvas.className)"""
pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("name", "model", "lang"), core(product((page.name for page in PAGES), MODELS, LANGUAGES), CORE)
)
def test_a_page_is_accessible_and_whole(visitor, name, model, lang):
    page = visitor.page
    page.emulate_media(color_scheme="light")
    visitor.open("" if name == HOME else name, lang=lang, model=model)
    page.wait_for_function(SETTLED, polling=LOOKS)
    assert page.locator("html").get_attribute("lang") == lang
    for is_dark in (False, True):
        if is_dark:
            visitor.darken()
        if model == MODELS[0]:  # axe takes most of the time
            # Nothing else depends on the theme.
            assert lasting(visitor, **{"runOnly": ["color-contrast"]} if is_dark else {}) == []
        for width, height in SCREENS:
            page.set_viewport_size({"width": width, "height": height})
            visitor.settle()
            visitor.fits(width)
            if (width, height) != SCREENS[0]:
                visitor.labels_stand_clear()
            assert faults(visitor, width) == []
        page.set_viewport_size({"width": 1440, "height": 1000})


def faults(visitor: Visitor, width: int) -> list[str]:
    """Empty pictures and exceptions, also of what is out of sight."""
    page = visitor.page
    tall = page.evaluate("() => document.querySelector('[data-testid=stMain]').scrollHeight")
    # What is out of sight is drawn only then.
    page.set_viewport_size({"width": width, "height": min(tall, 12_000)})
    page.wait_for_function(SETTLED, polling=LOOKS)
    page.evaluate("() => new Promise(requestAnimationFrame)")
    return [
        *page.locator(".js-plotly-plot").evaluate_all(EMPTY_CHARTS),
        *page.locator("canvas").evaluate_all(EMPTY_CANVASES),
        *page.get_by_test_id("stException").all_inner_texts(),
    ]


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


CUT_OFF = """() => {
    const [cut, range] = [[], document.createRange()];
    const look = (node) => {
        [node.shadowRoot, ...node.childNodes].forEach((child) => child && look(child));
        if (!node.data?.includes('⟦') || !node.parentElement?.checkVisibility()) return;
        range.selectNodeContents(node);
        const { right, bottom } = range.getBoundingClientRect();
        for (let at = node.parentElement; at; at = at.parentElement ?? at.getRootNode().host) {
            const [{ overflow }, box] = [getComputedStyle(at), at.getBoundingClientRect()];
            // Closed, for screen readers, or it can be scrolled to.
            if (Math.min(box.width, box.height) < 2 || /auto|scroll/.test(overflow)) return;
            const isOver = right > box.right + 2 || bottom > box.bottom + 4;
            if (overflow !== 'visible' && isOver) cut.push(node.data);
        }
    };
    look(document.querySelector('[data-testid=stApp]'));
    return cut;
}"""


@pytest.mark.parametrize("width", core((1440, 390), ()))
def test_a_longer_language_is_not_cut_off(profile, width):
    page = profile.new_page()
    page.set_viewport_size({"width": width, "height": 900})
    port, start = free_port(), "from tests.pseudo import speak; speak(); import runpy"
    command = ["-c", f"{start}; runpy.run_module('streamlit', run_name='__main__')"]
    command += ["run", "app.py", "--server.port", str(port), "--server.headless", "true"]
    with serving(command, port):
        for name in (each.name for each in PAGES):
            page.goto(f"http://localhost:{port}/{'' if name == HOME else name}?lang=en")
            page.wait_for_function(SETTLED, polling=LOOKS)
            assert (name, page.evaluate(CUT_OFF)) == (name, [])
