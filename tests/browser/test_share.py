"""What a page exports: one file that shows the page's pictures without app or network."""

from urllib.parse import unquote

import pytest
from playwright.sync_api import expect

from explorer.text import t

pytestmark = pytest.mark.browser
CORE = ("heads",)
"""The page that `make test` saves; `make sweep` saves all."""
PICTURES = {
    "heads": ".hl .panel canvas",
    "start": ".hl canvas.main",
    "score": ".js-plotly-plot",
    "masks": ".hl canvas",
    "positions": ".js-plotly-plot",
    "model": ".machine a.part",
    "decoding": ".hl .player .play",
}


@pytest.mark.parametrize(
    "place",
    [pytest.param(each, marks=() if each in CORE else pytest.mark.sweep) for each in PICTURES],
)
def test_a_page_is_one_file_that_needs_no_network(visitor, place, tmp_path):
    visitor.open(place, lang="en", text="I love you.")
    visitor.page.locator(PICTURES[place]).first.wait_for()
    visitor.settle()
    visitor.page.get_by_role("button", name=t("take.title", lang="en")).click()
    with visitor.page.expect_download() as started:
        visitor.page.get_by_role("button", name=t("take.html", lang="en"), exact=True).click()
    name = started.value.suggested_filename
    assert name == f"headlight-en-zh-{place}-I-love-you.html"
    file = tmp_path / "page.html"
    started.value.save_as(file)
    page = visitor.page.context.new_page()
    asked, errors = [], []
    page.on("request", lambda request: asked.append(unquote(request.url)))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(file.as_uri())
    page.locator(PICTURES[place]).first.wait_for()
    expect(page.locator("h1")).to_contain_text(t(f"{place}.title", lang="en"))
    expect(page.locator("body")).to_contain_text("I love you.")
    if place == "decoding":  # the film plays by itself, and again from its start
        count = page.locator(".player .count")
        shown = [count.inner_text()]
        for _ in range(int(shown[0].split("/")[-1])):
            expect(count).not_to_have_text(shown[-1])
            shown.append(count.inner_text())
        assert shown[-1] == shown[0]
        assert len(set(shown)) == len(shown) - 1
    if place == "heads":
        page.locator(".hl .body .panel canvas").last.hover()
        expect(page.locator(".hl .body .panel .readout").first).to_contain_text("→")
    assert errors == []
    assert asked == [file.as_uri()]
    page.close()
