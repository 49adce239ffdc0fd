"""The map of patches in real Chromium: a click opens the patched run, and the link follows."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PATIENCE, Visitor

pytestmark = pytest.mark.browser


@pytest.mark.sweep
def test_a_click_on_the_map_opens_that_patched_run(visitor: Visitor) -> None:
    visitor.open("patching", text="She reads a book.", second="He reads a book.", what="z")
    page = visitor.page
    point = page.locator(".js-plotly-plot .scatterlayer .trace .point").nth(3)
    point.wait_for(state="attached")
    box = point.bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_url(re.compile("cell=encoder-1-4"), timeout=PATIENCE)
    expect(page.get_by_text("Head output z of layer 1, head 4").first).to_be_visible()
