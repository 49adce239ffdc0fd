"""Positions and Blocks in real Chromium with the shipped models."""

from itertools import pairwise
from urllib.parse import parse_qs, urlsplit

import pytest

from explorer.text import t
from tests.browser.conftest import Visitor

pytestmark = pytest.mark.browser
SENTENCE = "The dog chased the cat."


def parameter(url: str, name: str) -> str:
    """What a link says of one thing."""
    return parse_qs(urlsplit(url).query).get(name, [""])[0]


@pytest.mark.sweep  # asked without the browser in tests/pages
def test_words_are_shuffled_and_the_output_is_one_bag_of_words(visitor: Visitor) -> None:
    visitor.open("positions", text=SENTENCE, lang="en")
    visitor.shows(t("positions.texts_same", lang="en"))
    visitor.page.locator(".js-plotly-plot .barlayer").first.wait_for(state="attached")
    visitor.page.locator(".hl:visible").first.wait_for()
    rows = visitor.page.locator("table tr")
    without = [cell.inner_text() for cell in rows.nth(2).locator("td").all()]
    assert without[1] == without[2] != ""
    visitor.page.get_by_role("button", name=t("positions.shuffle", lang="en")).click()
    visitor.page.wait_for_url(lambda url: parameter(url, "shuffle") == "2")
    visitor.settle()
    visitor.page.get_by_role("button", name=t("positions.open_twin", lang="en")).click()
    visitor.page.wait_for_url(lambda url: parameter(url, "model") == "twin-no-positions")
    visitor.settle()
    visitor.shows(t("positions.texts_same", lang="en"))


@pytest.mark.sweep  # asked without the browser in tests/pages
@pytest.mark.parametrize("lang", ["zh"])
def test_positions_counted_from_the_end_change_head_and_translation(
    visitor: Visitor, lang: str
) -> None:
    visitor.open("positions", text=SENTENCE, lang=lang, part="head", site="encoder")
    visitor.page.get_by_text(t("positions.change_reverse", lang=lang), exact=True).click()
    visitor.page.wait_for_url(lambda url: parameter(url, "change") == "reverse")
    visitor.settle()
    assert visitor.page.locator(".js-plotly-plot .heatmaplayer image").count() >= 2
    visitor.shows(t("positions.writes", lang=lang, text="").strip())


def test_arrows_turn_in_the_rotary_model(visitor: Visitor) -> None:
    visitor.open("positions", model="stories", part="rotary", row="5", key="2")
    visitor.shows("They are 3 apart")
    visitor.page.get_by_text("λ 35,333").first.wait_for()
    assert visitor.page.get_by_text(t("positions.as_if", lang="en", divisor="√32")).count() == 0


@pytest.mark.sweep  # asked without the browser in tests/pages
@pytest.mark.parametrize("lang", ["en"])
def test_norms_stand_in_three_places_with_their_numbers(visitor: Visitor, lang: str) -> None:
    visitor.open("blocks", lang=lang, part="residual", depth="3", text=SENTENCE)
    visitor.shows(t("blocks.twins_note", lang=lang))
    wiring = visitor.page.locator(".js-plotly-plot").first
    for place in ("post", "pre", "sublayer"):
        wiring.get_by_text(t(f"figures.residual.{place}", lang=lang), exact=True).first.wait_for()
    slider = visitor.page.get_by_role("slider").first
    slider.focus()
    slider.press("ArrowRight")
    visitor.page.wait_for_url(lambda url: parameter(url, "depth") == "4")
    visitor.settle()


@pytest.mark.sweep  # asked without the browser in tests/pages
def test_further_sentences_move_yours_under_batch_norm_only(visitor: Visitor) -> None:
    visitor.open("blocks", text=SENTENCE, beside="She reads a book every morning.")
    visitor.shows(t("blocks.batch", lang="en")[:40])
    visitor.shows("under LayerNorm and 0 % under RMSNorm")
    visitor.page.get_by_text(t("blocks.parts.hidden", lang="en"), exact=True).click()
    visitor.page.wait_for_url(lambda url: parameter(url, "part") == "hidden")
    visitor.settle()
    visitor.page.locator(".js-plotly-plot .heatmaplayer image").first.wait_for(state="attached")


def test_on_a_phone_the_labels_of_tokens_stand_clear_of_each_other(visitor: Visitor) -> None:
    visitor.page.set_viewport_size({"width": 390, "height": 844})
    visitor.open(
        "blocks", text="When the old man saw that his little dog had run away, he ran too."
    )
    place = visitor.page.locator(".st-key-wide-blocks-statistics-scale")
    labels = place.locator(".annotation")
    labels.first.wait_for(state="attached")
    boxes = labels.evaluate_all(
        """all => all.map(one => one.getBoundingClientRect())
          .map(({ left, right, y }) => [left, right, y])"""
    )
    first = [box for box in boxes if box[2] == boxes[0][2]]
    assert len(first) > 15
    assert all(one[1] <= other[0] for one, other in pairwise(first))
    assert place.evaluate("place => place.scrollWidth > place.clientWidth")
