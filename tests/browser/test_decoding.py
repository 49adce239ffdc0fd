"""The film and the tree in real Chromium: played without a server, and what is taken from them."""

import re

import pytest
from playwright.sync_api import Locator, expect

from explorer.text import t
from tests.browser.conftest import Visitor

pytestmark = pytest.mark.browser
SENTENCE = "I like dogs."


def count(visitor: Visitor) -> Locator:
    return visitor.page.locator(".player .count")


def test_the_film_plays_to_its_end_and_the_link_follows_where_it_rests(visitor):
    visitor.open("decoding", text=SENTENCE, lang="zh", part="cache")
    visitor.at("play").wait_for()
    first = visitor.page.locator(".why").inner_text()
    visitor.at("speed").select_option(index=3)
    visitor.at("play").click()
    end = int(count(visitor).inner_text().split("/")[1])
    expect(count(visitor)).to_contain_text(f"{end} / {end}")
    assert visitor.page.locator(".why").inner_text() != first
    visitor.page.wait_for_url(re.compile(f"step={end}"))
    assert visitor.page.locator(".stage .chip.new").inner_text() == "</s>"
    button = visitor.page.locator(".player .play")
    button.hover()
    sign, ground = button.evaluate(
        "(node) => [getComputedStyle(node, '::before').backgroundColor,"
        " getComputedStyle(node).backgroundColor]"
    )
    assert sign != ground  # it stays visible under the pointer


def test_keys_step_and_a_menu_chooses_the_head_without_losing_the_step(visitor):
    visitor.open("decoding", text=SENTENCE, part="cache")
    visitor.at("next").focus()
    visitor.page.keyboard.press("ArrowRight")
    visitor.page.keyboard.press("ArrowRight")
    visitor.page.keyboard.press("ArrowLeft")
    expect(count(visitor)).to_contain_text("2 /")
    visitor.at("layer").select_option(index=1)
    visitor.at("head").select_option(index=4)
    visitor.page.wait_for_url(
        lambda url: all(each in url for each in ("step=2", "layer=1", "head=4"))
    )
    visitor.page.goto(visitor.page.url)
    expect(count(visitor)).to_contain_text("2 /")
    assert visitor.at("head").input_value() == "3"


def test_a_candidate_is_taken_and_a_second_line_grows(visitor):
    visitor.open("decoding", text=SENTENCE, step="1")
    visitor.at("candidate1").click()
    visitor.page.wait_for_url("**fork=*")
    visitor.page.locator("[data-at=tree]").wait_for()
    visitor.shows(t("branches.close", lang="en"))
    visitor.at("tree").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        visitor.at("tree").press(key)
    forked = visitor.page.url
    visitor.at("tree").press("Enter")
    visitor.page.wait_for_url(lambda url: "fork=" in url and url != forked)
    visitor.settle()
    visitor.page.get_by_role("button", name=t("branches.close", lang="en")).click()
    visitor.page.wait_for_url(lambda url: "fork=" not in url)
