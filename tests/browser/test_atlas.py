"""The atlas in a browser: a click on a point of the map opens that head."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visitor

pytestmark = pytest.mark.browser


def test_a_click_on_a_point_opens_its_head(visitor: Visitor) -> None:
    page = visitor.open("atlas", site="decoder", layer="1", head="1").page
    heading = page.get_by_role("heading", name="Decoder self-attention, layer 1, head 1")
    expect(heading).to_be_visible()
    point = page.locator(".js-plotly-plot .scatterlayer .trace .point").first
    point.dispatch_event("mousemove")
    box = point.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(heading).to_be_hidden()
    visitor.settle()
    assert "layer=" in page.url
