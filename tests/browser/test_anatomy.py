"""One cell, the machine and the claims in real Chromium, with the shipped models."""

from urllib.parse import parse_qs, urlsplit

import pytest

from explorer.exhibits.cell.choices import STAGES
from explorer.text import t, words
from tests.browser.conftest import Visitor

pytestmark = pytest.mark.browser
SENTENCE = "I like dogs."


def chosen(url: str, name: str) -> str:
    """What a link says of one thing."""
    return parse_qs(urlsplit(url).query).get(name, [""])[0]


@pytest.mark.parametrize("lang", ["zh"])
def test_from_a_head_down_to_the_logit(visitor: Visitor, lang: str) -> None:
    visitor.open(lang=lang, text=SENTENCE, site="cross", layer="2", head="3", row="1")
    visitor.page.get_by_role("button", name=t("cell.open_this", lang=lang)).click()
    visitor.page.wait_for_url("**/cell**")
    visitor.settle()
    assert chosen(visitor.page.url, "head") == "3"
    for stage in STAGES[1:]:
        visitor.page.get_by_role("button", name=t("cell.next", lang=lang)).click()
        visitor.settle()
        number = str(STAGES.index(stage) + 1)
        visitor.page.wait_for_url(lambda url, number=number: chosen(url, "stage") == number)
        visitor.page.locator(".js-plotly-plot .barlayer").first.wait_for(state="attached")
    visitor.shows(t("cell.logits", lang=lang)[:12])
    visitor.page.get_by_text(t("cell.asides.scaling", lang=lang), exact=True).click()
    visitor.shows(t("cell.scalings.model", lang=lang))
    visitor.page.wait_for_url(lambda url: chosen(url, "aside") == "scaling")


def test_a_click_on_a_column_opens_its_key_however_small_the_bar(visitor: Visitor) -> None:
    visitor.open("cell", text=SENTENCE, site="encoder", layer="1", head="1", row="1", stage="3")
    bars = visitor.page.locator(".js-plotly-plot .barlayer .point path")
    bars.first.wait_for(state="attached")
    boxes = [box for bar in bars.all() if (box := bar.bounding_box()) is not None]
    smallest = min(range(len(boxes)), key=lambda i: boxes[i]["height"])
    box = boxes[smallest]
    assert box["height"] < 40  # so that the click is well above it
    visitor.page.mouse.click(box["x"] + box["width"] / 2, box["y"] - 60)
    visitor.page.wait_for_url(lambda url: chosen(url, "key") == str(smallest))


@pytest.mark.parametrize("words", [pytest.param(12, marks=pytest.mark.sweep), 36])
def test_on_a_phone_the_labels_of_the_keys_stand_clear(visitor: Visitor, words: int) -> None:
    visitor.page.set_viewport_size({"width": 390, "height": 844})
    text = " ".join(["I", "like", "you", "because", "you", "are"] * (words // 6))
    visitor.open("cell", text=text, site="encoder", layer="1", head="1", row="1", stage="3")
    visitor.page.locator(".js-plotly-plot .barlayer").first.wait_for(state="attached")
    visitor.settle()
    assert visitor.page.locator(".js-plotly-plot .xtick").count() == words + 1  # the end mark
    assert visitor.touching_labels() == []
    visitor.fits(390)


@pytest.mark.sweep  # asked without the browser in tests/pages
def test_a_claim_is_guessed_and_then_measured(visitor: Visitor) -> None:
    visitor.open("claims", text=SENTENCE, claim="original")
    visitor.shows(t("claims.waiting", lang="en"))
    visitor.page.get_by_text(t("claims.verdicts.false", lang="en"), exact=True).click()
    visitor.shows(words("en")["claims.original.false"].partition("{")[0])
    verdict = t("claims.verdicts.false", lang="en")
    visitor.shows(t("claims.right", lang="en", verdict=verdict).split(":")[0])
    visitor.page.wait_for_url(lambda url: chosen(url, "guess") == "false")


def test_the_table_of_positions_ends_where_the_toy_does(visitor: Visitor) -> None:
    visitor.open("claims", claim="extrapolation", guess="false", lang="zh")
    visitor.shows(words("zh")["claims.extrapolation.false"].partition("{")[0][:12])
    visitor.page.locator(".js-plotly-plot .scatterlayer").first.wait_for(state="attached")


def test_a_part_of_the_machine_opens_its_page(visitor: Visitor) -> None:
    visitor.open("machine", text=SENTENCE, unfolded="1")
    part = visitor.page.locator(
        ".machine .tgt a.part", has_text=t("machine.parts.cross", lang="en")
    )
    visitor.page.evaluate("window.stayed = true")
    part.first.click()
    visitor.page.wait_for_url(lambda url: urlsplit(url).path == "/heads")
    visitor.settle()
    assert visitor.page.evaluate("window.stayed")  # the same session, not a new visit
    assert chosen(visitor.page.url, "layer") == "2"
    assert chosen(visitor.page.url, "site") in ("", "cross")
    visitor.page.go_back()
    visitor.page.locator(".machine .src a.part").first.click()  # the embedding
    visitor.page.wait_for_url("**/cell**")
    visitor.settle()
    assert chosen(visitor.page.url, "aside") == "split"
    assert visitor.page.evaluate("window.stayed")


MEET = """([boxes, heads, atEnd]) => boxes.every((box, index) => {
    const [to, at] = [box, heads[index]].map((each) => each.getBoundingClientRect());
    const edge = atEnd ? to.right : to.left;
    return Math.abs(at.left + at.width / 2 - edge) < 2
        && Math.abs(at.top + at.height / 2 - to.top - to.height / 2) < 2;
})"""
"""Whether each head of an arrow is at the middle of its box's edge."""


@pytest.mark.parametrize("width", [pytest.param(1440, marks=pytest.mark.sweep), 390])
def test_arrows_lead_past_every_sublayer_and_from_the_memory_to_a_layer(
    visitor: Visitor, width: int
) -> None:
    visitor.page.set_viewport_size({"width": width, "height": 900})
    visitor.open("machine", text=SENTENCE)
    visitor.page.locator(".machine .wires .head").first.wait_for()
    visitor.settle()
    for arrow, name, count in (("skip", "add", 2 + 3), ("sent", "cross", 1)):
        boxes = visitor.page.locator(
            ".machine .part", has_text=t(f"machine.parts.{name}", lang="en")
        )
        assert boxes.count() == count
        heads = visitor.page.locator(f".machine .wires .head.{arrow}")
        assert heads.count() == count
        visitor.page.wait_for_function(  # all at once: what stands above may still grow
            MEET, arg=[boxes.element_handles(), heads.element_handles(), arrow == "skip"]
        )
    visitor.fits(width)


@pytest.mark.sweep  # asked without the browser in tests/pages
def test_llama_is_counted_on_paper(visitor: Visitor) -> None:
    visitor.open("machine", text=SENTENCE)
    visitor.page.get_by_text(t("machine.calculator", lang="en"), exact=True).click()
    visitor.page.get_by_text(t("machine.presets.llama", lang="en"), exact=True).click()
    visitor.shows("6,738,415,616")
    visitor.page.wait_for_url(lambda url: chosen(url, "sizes") == "llama")
