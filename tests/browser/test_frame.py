"""The frame round the pages in real Chromium: headings, tabs, the back button."""

import re
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import expect

from benchmarks.live import served
from explorer.pages import HOME, PAGES
from explorer.text import t
from models.training.home import data
from tests.browser.app import running_app
from tests.browser.conftest import DARK
from tests.walk import LOOKS, SETTLED

pytestmark = pytest.mark.browser


def test_back_leaves_a_page_of_the_menu_in_one_press(visitor):
    visitor.open(lang="en", text="I love you.")
    for name in ("masks", "positions"):
        visitor.page.get_by_role("link", name=t(f"{name}.title", lang="en"), exact=True).click()
        expect(visitor.page).to_have_title(f"{t(f'{name}.title', lang='en')} · Headlight")
        visitor.page.wait_for_url(f"**/{name}?*text=*")
        visitor.settle()
    visitor.page.go_back()
    expect(visitor.page.locator("h1")).to_have_text(t("masks.title", lang="en"))
    assert urlsplit(visitor.page.url).path == "/masks"
    visitor.settle()
    visitor.page.go_back()
    expect(visitor.page.locator("h1")).to_have_text(t("start.title", lang="en"))
    assert urlsplit(visitor.page.url).path == "/"


FIRST_FRAMES = """() => {
    window.shifts = 0;
    window.moved = [];
    new PerformanceObserver(list => {
        for (const each of list.getEntries()) {
            window.shifts += each.value;
            window.moved.push(...each.sources.map(({ node, previousRect, currentRect }) =>
                [node?.textContent?.slice(0, 30), previousRect.y, currentRect.y]));
        }
    }).observe({ type: 'layout-shift', buffered: true });
    const look = () => {
        const body = document.body && getComputedStyle(document.body).backgroundColor;
        window.ground ??= body;
        const title = document.querySelector('h1');
        if (title) window.titled = getComputedStyle(title).fontSize;
        else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
}"""


@pytest.mark.parametrize(
    ("place", "width"),
    [
        ("heads", 1440),
        *(pytest.param(name, 390, marks=pytest.mark.sweep) for name in ("heads", "masks")),
    ],
)
def test_a_first_visit_is_styled_from_its_first_frame_and_stands_still(visitor, place, width):
    """Layout shift by the browser's own measure; up to 0.1 is good (web.dev/articles/cls)."""
    visitor.page.set_viewport_size({"width": width, "height": 900})
    visitor.page.add_init_script(f"({FIRST_FRAMES})()")
    visitor.open(place, lang="en", theme="dark", text="I love you.")
    visitor.page.locator(".hl canvas").first.wait_for()
    visitor.settle()
    assert visitor.page.evaluate("[window.ground, window.titled]") == [DARK, "24px"]
    assert visitor.page.evaluate("window.shifts") <= 0.1, visitor.page.evaluate("window.moved")


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(each.name, marks=() if each.name == "heads" else pytest.mark.sweep)
        for each in PAGES
    ],
)
def test_an_embedded_view_has_no_frame(visitor, place):
    page = visitor.page
    page.goto(f"{visitor.address}/{'' if place == HOME else place}?lang=en&embed=1")
    page.wait_for_function(SETTLED, polling=LOOKS)
    for name in ("[data-testid=stSidebar]", "h1", ".st-key-views", f".st-key-share-{place}"):
        expect(page.locator(name)).to_be_hidden()
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        visitor.fits(width)


@pytest.mark.sweep
def test_a_page_around_the_app_talks_to_it(browser, tmp_path, monkeypatch):
    """A page of another site gets no answer, and its messages change nothing."""
    script = data("explorer.live", "frame.js").read_text(encoding="utf-8")
    ask = "postMessage({ headlight: 1, sentence: 'She reads a book.', %s }, '*')"
    choices = "chosen: { layer: 2, head: 3, mask: 'alone', site: 'nowhere' }"
    other = ask % "chosen: { layer: 3, mask: 'causal' }, lang: 'en'"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "index.html").write_text(
        "<link rel='icon' href='data:,'><script>heard = []; onmessage = ({ data }) =>"
        f" heard.push(data); ask = () => parent.frames[0].{other};</script>"
    )
    with served(tmp_path) as host, served(tmp_path / "other") as elsewhere:
        monkeypatch.setenv("HEADLIGHT_EMBED_ORIGINS", host.rstrip("/"))
        with running_app() as address:
            (tmp_path / "index.html").write_text(
                "<html lang='zh'><link rel='icon' href='data:,'>"
                "<body style='background: #111'><script>heard = [];"
                " onmessage = ({ data }) => heard.push(data);</script>"
                f"<iframe src='{address}/heads?embed=1' width='900'></iframe>"
                f"<iframe src='{elsewhere}'></iframe><script>{script}</script></body></html>"
            )
            page, said = browser.new_page(), []
            page.on("console", lambda message: said.append(message.text))
            page.goto(host)
            inside = page.frame_locator("iframe").first
            expect(inside.locator(".hl canvas").first).to_be_visible()
            expect(inside.locator("[data-testid=stApp]")).to_have_css("background-color", DARK)
            page.wait_for_function("() => heard.some(each => each.chosen?.lang === 'zh')")
            stranger = page.frames[-1]
            stranger.evaluate("() => ask()")
            page.evaluate(f"frames[0].{ask % choices}")
            page.wait_for_function(
                "() => heard.some(({ chosen }) => chosen?.text === 'She reads a book.'"
                " && chosen.layer === '2' && chosen.head === '3' && chosen.edits === 'window-1')"
            )
            chosen = page.evaluate("heard.flatMap(each => each.chosen ?? [])")
            assert not [each for each in chosen if each.get("layer") == "3"]
            assert {each["lang"] for each in chosen[-1:]} == {"zh"}
            assert stranger.evaluate("heard") == []
            tall = page.evaluate("heard.filter(each => each.height).at(-1).height")
            expect(page.locator("iframe").first).to_have_css("height", f"{tall}px")
            page.close()
            assert not [each for each in said if "postMessage" in each]


def test_a_link_for_a_class_is_large_and_wears_its_theme(visitor):
    visitor.page.set_viewport_size({"width": 1280, "height": 720})
    visitor.open("heads", lang="en", beamer="1", theme="dark")
    picture = visitor.page.locator(".hl .panel canvas").first
    picture.wait_for()
    visitor.settle()
    box = picture.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 720  # the whole picture in the first screen
    sizes = visitor.page.evaluate(
        "() => [document.documentElement, document.querySelector('[data-testid=stApp]')]"
        ".map((each) => [getComputedStyle(each).fontSize, getComputedStyle(each).backgroundColor])"
    )
    assert sizes[0][0] == "20px"
    assert sizes[1][1] == DARK
    visitor.fits(1280)
    visitor.open("heads", lang="en", theme="light")
    expect(visitor.page.locator("[data-testid=stApp]")).to_have_css(
        "background-color", "rgb(255, 255, 255)"
    )


ON_PAPER = """() => {
    const main = document.querySelector('[data-testid=stMainBlockContainer]');
    const pictures = [...main.querySelectorAll(
        '.stPlotlyChart, [data-testid=stBidiComponentIsolated], [class*=st-key-reading], h1')]
        .map(each => each.getBoundingClientRect()).filter(box => box.width && box.height);
    const seen = [...document.querySelectorAll('[data-testid=stSidebar], [data-testid=stHeader],'
        + ' .stButton, .stSelectbox, [class*=st-key-share]')]
        .filter(each => each.checkVisibility());
    return { count: pictures.length, left: Math.min(...pictures.map(box => box.left)),
        right: Math.max(...pictures.map(box => box.right)), seen: seen.length };
}"""
SHEET = 703
"""CSS pixels between the margins of 12 mm of A4."""


@pytest.mark.parametrize(
    ("place", "width", "sheets"),
    [
        ("positions?part=table", 1440, 2),
        pytest.param("heads?", 390, 4, marks=pytest.mark.sweep),
        pytest.param("masks?theme=dark", 1024, 3, marks=pytest.mark.sweep),
        pytest.param("decoding?", 1920, 2, marks=pytest.mark.sweep),
        pytest.param("path?part=printed", 1440, 5, marks=pytest.mark.sweep),
    ],
)
def test_a_page_is_printed_whole_and_without_its_controls(visitor, place, width, sheets):
    page = visitor.page
    page.set_viewport_size({"width": width, "height": 900})
    name, _, query = place.partition("?")
    visitor.open(name, lang="en", text="I love you.", **dict(parse_qsl(query)))
    page.locator("[data-testid=stMain] :is(.js-plotly-plot .main-svg, .hl canvas)").first.wait_for()
    visitor.settle()
    printed = page.pdf(
        format="A4", margin=dict.fromkeys(("left", "right", "top", "bottom"), "12mm")
    )
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= sheets
    page.emulate_media(media="print")
    page.set_viewport_size({"width": SHEET, "height": 1000})
    found = page.evaluate(ON_PAPER)
    page.emulate_media(media="screen")
    assert found["count"] > 1
    assert found["seen"] == 0
    assert found["left"] >= -1
    assert found["right"] <= SHEET + 1
