"""Clicks in charts, diagrams, the film and the tree, in real Chromium with the shipped models."""

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, expect

from explorer.text import t
from tests.browser.conftest import Visitor, asked

pytestmark = pytest.mark.browser
SENTENCE = "I like dogs."


def test_a_click_on_a_column_opens_its_key_however_small_the_bar(visitor):
    visitor.open("score", text=SENTENCE, site="encoder", layer="1", head="1", row="1", stage="3")
    bars = visitor.page.locator(".js-plotly-plot .barlayer .point path")
    bars.first.wait_for(state="attached")
    boxes = [box for bar in bars.all() if (box := bar.bounding_box()) is not None]
    smallest = min(range(len(boxes)), key=lambda i: boxes[i]["height"])
    box = boxes[smallest]
    assert box["height"] < 40  # so that the click is well above it
    visitor.page.mouse.click(box["x"] + box["width"] / 2, box["y"] - 60)
    visitor.page.wait_for_url(lambda url: asked(url).get("key", "") == str(smallest))


def test_a_part_of_the_machine_opens_its_page(visitor):
    visitor.open("model", text=SENTENCE, unfolded="1")
    part = visitor.page.locator(".machine .tgt a.part", has_text=t("model.boxes.cross", lang="en"))
    visitor.page.evaluate("window.stayed = true")
    part.first.click()
    visitor.page.wait_for_url(
        lambda url: urlsplit(url).path == "/heads" and asked(url).get("layer") == "2"
    )
    visitor.settle()
    assert visitor.page.evaluate("window.stayed")  # the same session, not a new visit
    assert asked(visitor.page.url).get("site", "") in ("", "cross")
    visitor.page.go_back()
    visitor.page.locator(".machine .src a.part").first.click()  # the embedding
    visitor.page.wait_for_url("**/score?**aside=split**")
    assert visitor.page.evaluate("window.stayed")


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


def test_keys_step_and_a_menu_chooses_the_head_without_losing_the_step(visitor):
    visitor.open("decoding", text=SENTENCE, part="cache")
    visitor.at("next").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        visitor.page.keyboard.press(key)
    expect(count(visitor)).to_contain_text("2 /")
    visitor.at("layer").select_option(index=1)
    visitor.at("head").select_option(index=4)
    visitor.page.wait_for_url(
        lambda url: all(each in url for each in ("step=2", "layer=1", "head=4"))
    )
    visitor.page.goto(visitor.page.url)
    expect(count(visitor)).to_contain_text("2 /")
    expect(visitor.at("head")).to_have_value("3")


def test_a_candidate_is_taken_and_a_second_line_grows(visitor):
    visitor.open("decoding", text=SENTENCE, step="1")
    visitor.at("candidate1").click()
    visitor.page.wait_for_url("**fork=*")
    visitor.page.locator("[data-at=tree]").wait_for()
    visitor.shows(t("decoding.branches.close", lang="en"))
    visitor.at("tree").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        visitor.at("tree").press(key)
    forked = visitor.page.url
    visitor.at("tree").press("Enter")
    visitor.page.wait_for_url(lambda url: "fork=" in url and url != forked)
    visitor.settle()
    visitor.page.get_by_role("button", name=t("decoding.branches.close", lang="en")).click()
    visitor.page.wait_for_url(lambda url: "fork=" not in url)
