"""The frame round the pages in real Chromium: headings, tabs, the back button."""

import re
from urllib.parse import parse_qsl

import pytest
from cores import core, every
from playwright.sync_api import Locator, expect

from benchmarks.live import served
from explorer.pages import HOME, MENU, PAGES
from explorer.text import t
from models.training.home import data
from tests.browser.app import LOOKS, SETTLED, running_app
from tests.browser.conftest import DARK, Visitor, word

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("place", core((page.name for page in PAGES), ("heads",)))
def test_an_embedded_view_has_no_frame(visitor, place):
    page = visitor.page
    page.goto(f"{visitor.address}/{'' if place == HOME else place}?lang=en&embed=1")
    page.wait_for_function(SETTLED, polling=LOOKS)
    for name in ("[data-testid=stSidebar]", "h1", ".st-key-views", f".st-key-share-{place}"):
        expect(page.locator(name)).to_be_hidden()


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
STANDING, LYING = 703, 1032
"""CSS pixels between the margins of 12 mm of a sheet of A4."""


@pytest.mark.parametrize(
    ("place", "width", "sheets", "sheet"),
    every(
        5,
        [
            ("positions?part=table", 1440, 1, LYING),
            ("heads?", 390, 4, STANDING),
            ("masks?theme=dark", 1024, 1, STANDING),
            ("decoding?", 1920, 1, STANDING),
            ("path?part=printed", 1440, 3, STANDING),
        ],
    ),
)
def test_a_page_is_printed_whole_and_without_its_controls(visitor, place, width, sheets, sheet):
    page = visitor.page
    page.set_viewport_size({"width": width, "height": 900})
    name, _, query = place.partition("?")
    visitor.open(name, lang="en", text="I love you.", **dict(parse_qsl(query)))
    page.locator("[data-testid=stMain] :is(.js-plotly-plot .main-svg, .hl canvas)").first.wait_for()
    visitor.settle()
    printed = page.pdf(format="A4", prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == sheets
    page.emulate_media(media="print")
    page.set_viewport_size({"width": sheet, "height": 1000})
    found = page.evaluate(ON_PAPER)
    assert not page.locator(".hl :is(.above, .sieve, .keep):visible").count()
    page.emulate_media(media="screen")
    assert found["count"] > 1
    assert found["seen"] == 0
    assert found["left"] >= -1
    assert found["right"] <= sheet + 1


def test_ctrl_p_prints_once_everything_is_drawn_and_an_animation_its_last_frame(visitor):
    page = visitor.page
    visitor.open(lang="en")
    page.locator("html:not([data-hl-opening]) .player .play").wait_for()  # frame.js is there
    visitor.settle()
    page.evaluate("""() => {
        window.print = () => { document.documentElement.dataset.printed = "yes"; };
        const late = document.createElement("i");
        Object.assign(late, { id: "late" }).dataset.testid = "stSkeleton";
        document.querySelector("[data-testid=stMain]").append(late);
    }""")
    page.keyboard.press("Control+p")
    page.wait_for_timeout(500)
    expect(page.locator("html")).not_to_have_attribute("data-printed", "yes")
    page.evaluate("() => late.remove()")
    expect(page.locator("html")).to_have_attribute("data-printed", "yes")
    for place in ("decoding", ""):
        visitor.open(place, lang="en")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        step, last = page.locator(".player .count").inner_text().removeprefix("step").split("/")
        assert step.strip() == last.strip() != "1"
    page.emulate_media(media="print")
    for control in (".player", ".masks", ".doors", ".readout"):
        expect(page.locator(control).first).to_be_hidden()
    page.emulate_media(media="screen")


def test_a_view_is_two_clicks_away_and_what_a_model_lacks_is_dimmed(visitor):
    visitor.open(lang="en", model="stories")
    links = visitor.page.get_by_test_id("stTopNavLink")
    attention = links.filter(has_text=word("menu.attention"))
    attention.click()
    row = visitor.page.locator(".st-key-views").get_by_test_id("stPageLink-NavLink")
    row.filter(has_text=word("score.title")).click()
    expect(visitor.page.locator("h1")).to_have_text(word("score.title"))
    expect(attention).to_have_attribute("aria-current", "page")
    expect(row.nth(2)).to_have_attribute("disabled", "")


FIRST = """() => {
    const main = document.querySelector('[data-testid=stMain]');
    const kinds = '.js-plotly-plot, [data-testid=stBidiComponentIsolated], table, .stCode,'
        + '.stButton, .stButtonGroup, .stTextInput, .stTextArea, .stMultiSelect, .stProgress, '
        + '[data-testid=stAlert]';
    if (!main || main.querySelector('[class*=st-key][class$=-stop], [data-testid=stSkeleton]')) {
        return null; // it computes
    }
    const boxes = [...main.querySelectorAll(kinds)].filter(each => !each.closest(
        '.st-key-frame, .st-key-head, .st-key-parts, [class*=st-key-share]'))
        .map(each => each.getBoundingClientRect()).filter(box => box.width && box.height);
    return boxes.length ? [Math.min(...boxes.map(box => box.top)), main.scrollHeight] : null;
}"""
"""Where the first picture begins (of a view without one, its first list or control), and the
height of the view, in pixels."""
CHOICES = {page.name: page.choices for page in PAGES}
VIEWS = [
    (name, part)
    for group in MENU
    for name in group.views
    for part in getattr(CHOICES.get(name), "parts", ("",))
    if part not in ("printed", "experts")  # as long as what is printed; only a caption
]
SCREENS = ((720, 450, 450, 10**6), (390, 844, 600, 10**6), (1440, 900, 310, 2500))
"""Width and height of a screen, and the most that the picture's top and the view's height may be;
720 by 450 is 1440 by 900 at 200 % zoom."""
CORE = [("start", ""), ("heads", "")]
SENTENCE = {"lang": "en", "text": "She reads a book every morning."}
FORTY_WORDS = {
    "lang": "zh",
    "model": "zh-en",
    "text": "她辛苦工作了一整天，很晚才回到家里，弟弟和他最好的朋友还坐在厨房的桌子旁边，"
    "画着河边那座老房子的图画，他们想在那里住。",
}


@pytest.mark.parametrize(
    ("views", "read"), every(3, [(CORE, SENTENCE), (VIEWS, SENTENCE), (VIEWS, FORTY_WORDS)])
)
def test_the_picture_begins_high_and_no_view_is_long(visitor, views, read):
    """At 1440 by 900 within 310 pixels, and on the first screen at 200 % zoom and of a phone. Forty
    words take two lines, and the model guesses, which takes another."""
    longer = 1.15 if read is FORTY_WORDS else 1
    visitor.page.set_viewport_size({"width": 1440, "height": 900})
    visitor.open("card", **read)
    menu = visitor.page.get_by_label(t("frame.page", lang=read["lang"]), exact=True)
    fits = "at && at[0] <= top && at[1] <= most"
    within = f"([top, most]) => {{ const at = ({FIRST})(); return {fits}; }}"
    for name, part in views:
        if part:
            visitor.open(name, part=part, **read)
        else:
            menu.select_option(name, force=True)
            expect(menu).to_have_value(name)
            visitor.settle()
        for width, height, top, most in SCREENS:
            visitor.page.set_viewport_size({"width": width, "height": height})
            most_of = [longer * top, longer * most]
            visitor.page.wait_for_function(within, arg=most_of)  # once it is laid out
            visitor.fits(width)


@pytest.fixture
def phone(visitor) -> Visitor:
    visitor.page.set_viewport_size({"width": 390, "height": 844})
    return visitor


def menu(phone: Visitor) -> Locator:
    return phone.page.get_by_label(word("frame.page"), exact=True)


def open_sidebar(phone: Visitor) -> None:
    phone.page.get_by_role("button", name=word("frame.more"), exact=True).click()
    box = phone.page.get_by_role("textbox", name=word("sidebar.sentence"), exact=True)
    expect(box).to_be_in_viewport()


def test_the_bar_names_the_page_and_leads_to_the_others(phone):
    phone.open(lang="en", text="I love you.")
    expect(menu(phone)).to_be_in_viewport()
    expect(menu(phone)).to_have_value("start")
    menu(phone).select_option("alignment")
    expect(phone.page).to_have_title(f"{word('alignment.title')} · Headlight")
    phone.settle()
    tab = phone.page.locator(".st-key-views").get_by_text(word("alignment.title"), exact=True)
    expect(tab).to_be_in_viewport(ratio=0.9)  # the last of a row that is wider than the screen
    phone.page.wait_for_url("**text=I+love+you.**")
    phone.page.go_back()
    expect(phone.page).to_have_title(f"{word('start.title')} · Headlight")
    expect(menu(phone)).to_have_value("start")
    phone.open("card", lang="en")  # no view of the menu
    expect(menu(phone)).to_have_value("card")


def test_another_sentence_runs_from_the_bar(phone):
    phone.open("heads", lang="en", text="I love you.")
    bar = phone.page.locator(".st-key-frame")
    box = bar.get_by_role("textbox", name=word("frame.sentence"))
    run = bar.get_by_role("button", name=word("frame.run"), exact=True)
    expect(run).to_be_in_viewport()
    expect(box).to_have_value("I love you.")
    box.fill("She sings.")
    run.click()
    expect(phone.page.locator("[class*=st-key-sentence]").first).to_contain_text("She sings.")
    phone.settle()
    expect(box).to_have_value("She sings.")
    phone.page.wait_for_url("**text=She+sings.**")
    box.fill("He sings.")
    box.press("Enter")
    expect(phone.page.locator("[class*=st-key-sentence]").first).to_contain_text("He sings.")


def test_the_sidebar_goes_once_something_was_chosen_in_it(phone):
    phone.open("masks", lang="en", text="I love you.")
    sidebar = phone.page.get_by_test_id("stSidebar")
    box = sidebar.get_by_role("textbox", name=word("sidebar.sentence"), exact=True)
    run = sidebar.get_by_role("button", name=word("sidebar.run"), exact=True)
    for _ in range(2):  # the second press changes nothing
        open_sidebar(phone)
        box.fill("She sings.")
        run.click()
        expect(box).not_to_be_in_viewport()
        phone.page.wait_for_url("**text=She+sings.**")
    open_sidebar(phone)
    sidebar.get_by_role("button", name=word("sidebar.examples")).click()
    phone.page.locator("[data-testid=stPopoverBody] button").first.click()
    expect(box).not_to_be_in_viewport()
