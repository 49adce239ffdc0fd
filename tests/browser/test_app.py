"""The real app in real Chromium with the shipped translator: what a visitor does on day one."""

import re
import tomllib
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, expect

from explorer.library import open_model
from explorer.runs.edits import MaskSwitch
from explorer.runs.trace import trace
from explorer.text import t
from models.training.home import asset
from tests.browser.conftest import PATIENCE, Visitor

pytestmark = pytest.mark.browser

PICTURE = ".js-plotly-plot, .hl canvas"
CHINESE = re.compile("[\u4e00-\u9fff]+")


def translation(visitor: Visitor) -> str:
    """The translation that the sentence line shows in bold."""
    line = visitor.page.locator("[data-testid=stMarkdown]", has_text="→").first
    return line.locator("strong").first.inner_text()


@pytest.fixture(scope="module")
def telling() -> str:
    """An example sentence that the shipped model translates otherwise without causal mask."""
    model = open_model("en-zh")
    examples = tomllib.loads(asset("sentences", "en.toml").read_text(encoding="utf-8"))
    for sentence in (s for group in examples.values() for s in group):
        usual = trace(model, sentence).output
        if trace(model, sentence, edits=(MaskSwitch("causal", False),)).output != usual:
            return sentence
    pytest.fail("no example sentence changes without the causal mask")


def state(visitor: Visitor) -> dict[str, list[str]]:
    return parse_qs(urlsplit(visitor.page.url).query)


@pytest.mark.parametrize("lang", ["en", pytest.param("zh", marks=pytest.mark.sweep)])
def test_a_first_visit_shows_a_translated_sentence_and_an_open_head(
    visitor: Visitor, lang: str
) -> None:
    visitor.open("heads", lang=lang)
    visitor.page.locator(".hl .panel canvas").first.wait_for()
    # Each language opens on the translator that its readers read.
    assert bool(CHINESE.search(translation(visitor))) == (lang == "en")
    assert visitor.page.locator(".hl .head").count() > 24
    assert visitor.page.locator(".hl .head.opened").count() == 1


@pytest.mark.sweep  # asked without the browser in tests/pages
@pytest.mark.parametrize("lang", ["en"])
def test_a_typed_sentence_is_translated_and_stands_in_the_link(visitor: Visitor, lang: str) -> None:
    visitor.open("heads", lang=lang)
    before = translation(visitor)
    visitor.type_sentence(t("sidebar.sentence", lang=lang), "Thank you.")
    visitor.shows("谢谢")
    visitor.settle()
    assert translation(visitor) != before
    assert state(visitor)["text"] == ["Thank you."]


@pytest.mark.sweep  # asked without the browser in tests/pages
@pytest.mark.parametrize("lang", ["zh"])
def test_the_causal_mask_off_gives_another_translation_and_on_the_first_again(
    visitor: Visitor, lang: str, telling: str
) -> None:
    visitor.open("masks", lang=lang, text=telling)
    before = translation(visitor)
    switch = visitor.page.get_by_text(t("edits.causal", lang=lang), exact=True).first
    switch.click()
    visitor.shows(t("edits.changed", lang=lang, words="").strip())
    visitor.settle()
    visitor.page.wait_for_url("**edits=causal-off**")
    assert translation(visitor) != before
    switch.click()
    expect(visitor.text(t("edits.changed", lang=lang, words="").strip())).to_have_count(
        0, timeout=PATIENCE
    )
    visitor.settle()
    assert translation(visitor) == before
    visitor.page.wait_for_url(lambda url: "edits" not in url)


@pytest.mark.sweep  # asked without the browser in tests/pages
def test_the_language_switch_translates_the_page_and_keeps_the_sentence(visitor: Visitor) -> None:
    visitor.open("heads", text="I like dogs.")
    said = translation(visitor)
    visitor.page.get_by_text("中文", exact=True).first.click()
    visitor.shows(t("heads.lead", lang="zh").split("*")[0])
    visitor.settle()
    assert translation(visitor) == said
    assert state(visitor)["lang"] == ["zh"]
    assert visitor.page.locator("html").get_attribute("lang") == "zh"


@pytest.mark.parametrize(
    ("place", "state"),
    [
        ("", {"lang": "en"}),
        pytest.param("cell", {"lang": "en", "aside": "initial"}, marks=pytest.mark.sweep),
        pytest.param("masks", {"lang": "zh"}, marks=pytest.mark.sweep),
        pytest.param("positions", {"lang": "en"}, marks=pytest.mark.sweep),
        ("decoding", {"lang": "zh"}),
    ],
)
def test_a_page_opened_on_a_phone_draws_without_errors_and_fits(
    visitor: Visitor, place: str, state: dict[str, str]
) -> None:
    visitor.page.set_viewport_size({"width": 390, "height": 844})
    visitor.open(place, **state)
    visitor.page.locator(PICTURE).first.wait_for(state="attached")
    assert visitor.page.locator("[data-testid=stException]").count() == 0
    visitor.fits(390)


@pytest.mark.parametrize(
    "place",
    ["heads", *(pytest.param(page, marks=pytest.mark.sweep) for page in ("masks", "decoding"))],
)
def test_html_in_a_sentence_is_text_everywhere(visitor: Visitor, place: str) -> None:
    nasty = '<script>alert(1)</script> "><img src=x onerror=alert(2)> **bold** $x$'
    visitor.page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    visitor.open(place, text=nasty)
    visitor.shows("<script>alert(1)</script>")
    assert visitor.page.locator("img[src=x]").count() == 0


@pytest.mark.sweep  # asked without the browser in tests/pages
def test_a_sentence_that_is_refused_keeps_the_last_good_picture(visitor: Visitor) -> None:
    visitor.open("heads", text="I like dogs.")
    said = translation(visitor)
    visitor.type_sentence(t("sidebar.sentence", lang="en"), "   ")
    visitor.shows(t("problems.whitespace_only", lang="en"))
    visitor.settle()
    assert translation(visitor) == said
    assert visitor.page.locator(PICTURE).count() > 0


def test_an_uploaded_file_gives_sentences_to_pick(visitor: Visitor) -> None:
    visitor.open("heads")
    visitor.page.get_by_text(t("sidebar.file", lang="en"), exact=True).first.click()
    upload = visitor.page.locator("input[type=file]").first
    upload.set_input_files(
        {
            "name": "lesson.txt",
            "mimeType": "text/plain",
            "buffer": b"I am hungry.\nIt is raining.\n",
        }
    )
    visitor.shows(t("sidebar.file_pick", lang="en", count=2))
    visitor.settle()  # a menu that is opened while the sidebar is drawn again closes by itself
    visitor.page.get_by_role("combobox", name=t("sidebar.file_pick", lang="en", count=2)).click()
    visitor.page.get_by_role("option", name="It is raining.").click()
    visitor.shows("雨")


@pytest.mark.sweep  # asked without the browser in tests/pages
def test_two_visitors_do_not_see_each_others_edits(
    visitor: Visitor, browser: Browser, telling: str
) -> None:
    neighbour = Visitor(browser.new_context().new_page(), visitor.address)
    visitor.open("masks", text=telling, edits="causal-off")
    neighbour.open("masks", text=telling)
    assert translation(neighbour) != translation(visitor)
    neighbour.page.context.close()
    visitor.open("masks", text=telling, edits="causal-off")
    assert "causal-off" in state(visitor)["edits"]
