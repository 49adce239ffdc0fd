"""Pictures of a notebook, saved or in a frame, and what a page exports: drawn by the browser alone,
offline.
"""

from html import escape
from urllib.parse import unquote

import numpy as np
import pytest
from cores import core, every
from playwright.sync_api import expect

import explorer as hl
from explorer.components.heads_payload import HeadsSelection, whole_grid
from explorer.components.heads_view import pack_heads_view
from explorer.components.standalone import Component, page
from explorer.figures.matrix import Axis
from explorer.text import family, t

pytestmark = pytest.mark.browser


def _heads(n_layers: int, n_heads: int, n: int) -> hl.Picture:
    weights = np.random.default_rng(0).random((n_layers, n_heads, n, n)).astype(np.float32) ** 4
    weights /= weights.sum(-1, keepdims=True)
    return hl.show(weights, [f"<u>{at}</u>" for at in range(n)])


@pytest.mark.parametrize("theme", every(2, ("light", "dark")))
def test_a_saved_picture_draws_without_network_and_opens_any_head(offline, tmp_path, theme):
    page = offline
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": 1280, "height": 200})
    page.goto(_heads(2, 3, 70).save(tmp_path / "x.html").as_uri())
    page.locator(".panel canvas").first.wait_for()
    page.get_by_role("button", name="L2·H3", exact=True).click()
    panel = page.locator(".panel")
    expect(panel.locator(".title")).to_contain_text("L2·H3")
    expect(panel).to_have_attribute("aria-busy", "false")
    assert page.locator("u").count() == 0
    view = page.locator(".hl").first
    expect(view).to_have_attribute("data-dark", "") if theme == "dark" else None
    lines = page.locator(".stage canvas")
    drawn = "canvas => canvas.getContext('2d').getImageData(0, 0, 1000, 100).data.some(Boolean)"
    assert not lines.evaluate(drawn)  # nobody can see them yet
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # paper is light
    assert lines.evaluate(drawn)
    expect(view).not_to_have_attribute("data-dark", "")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(view).to_have_attribute("data-dark", "") if theme == "dark" else None


def test_a_page_kept_from_the_app_marks_what_it_knows_only_roughly(offline, tmp_path):
    generator = np.random.default_rng(0)
    for n, mark, note in ((4, "≈", "≈ rounded"), (70, "≤", "each 2 × 2 square")):
        weights = generator.dirichlet(np.ones(n), (1, 2, n)).astype(np.float32)
        thumbnails, cells_of = whole_grid(weights, np.True_, whole=False)
        payload = pack_heads_view(
            thumbnails,
            (
                Axis([f"q{at}" for at in range(n)], "query"),
                Axis([f"k{at}" for at in range(n)], "key"),
            ),
            cells_of=cells_of,
            selection=HeadsSelection((0, 0), query=0, key=1),
            words=family("components.heads_view", lang="en"),
        )
        file = tmp_path / "kept.html"
        file.write_text(page("Kept", [Component("heads_view", payload)], "en"), encoding="utf-8")
        offline.goto(file.as_uri())
        panel = offline.locator(".panel")
        expect(panel.locator(".readout")).to_contain_text("k1")
        expect(panel).not_to_contain_text(mark)
        offline.get_by_role("button", name="L1·H2", exact=True).press("Enter")
        expect(panel.locator(".title")).to_contain_text(note)
        expect(panel.locator(".readout")).to_contain_text(f"k1 · {mark} ")
        expect(panel).to_have_attribute("aria-busy", "false")


def test_a_frame_takes_its_height_and_follows_the_notebooks_theme(offline, tmp_path):
    notebook = tmp_path / "notebook.html"
    notebook.write_text(
        f"<body data-jp-theme-light='true'>{_heads(1, 2, 5)._repr_html_()}</body>", encoding="utf-8"
    )
    offline.goto(notebook.as_uri())
    inside = offline.frame_locator("iframe")
    view = inside.locator(".hl").first
    inside.locator(".panel canvas").first.wait_for()
    expect(view).not_to_have_attribute("data-dark", "")
    height = inside.locator("html").evaluate("node => node.offsetHeight")
    assert height > 200
    expect(offline.locator("iframe")).to_have_css("height", f"{height}px")
    offline.evaluate("document.body.dataset.jpThemeLight = 'false'")
    expect(view).to_have_attribute("data-dark", "")


# How others show an output. VS Code's webview and Colab's outputs are documents in a frame of their
# own, which scripts of the notebook share; what isolates outputs gives them an origin of their own.
_SCRIPTS = "allow-scripts allow-same-origin allow-forms allow-pointer-lock allow-downloads"
_HOSTS = {
    "vscode": (
        _SCRIPTS,
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; script-src "
        "'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src https: http: data:; "
        'font-src https:; connect-src https:; child-src https: data:">'
        "<body class='vscode-dark' style='overflow: hidden'>",
    ),
    "colab": (_SCRIPTS, "<html theme='dark'><body>"),
    "isolated": ("allow-scripts", "<body>"),
}


@pytest.mark.parametrize("host", core(_HOSTS, ("vscode", "isolated")))
def test_a_frame_keeps_to_the_rules_of_other_notebooks(offline, tmp_path, host):
    sandbox, head = _HOSTS[host]
    output = f"{head}<div>{_heads(1, 2, 5)._repr_html_()}</div></body>"
    notebook = tmp_path / "notebook.html"
    notebook.write_text(
        f'<iframe sandbox="{sandbox}" srcdoc="{escape(output)}" '
        'style="width: 1000px; height: 1500px"></iframe>',
        encoding="utf-8",
    )
    offline.goto(notebook.as_uri())
    outside = offline.frame_locator("iframe")
    inside = outside.frame_locator("iframe")
    inside.locator(".panel canvas").first.wait_for()
    expect(outside.locator(".headlight-still")).to_be_hidden()
    frame = outside.locator("iframe")
    if host == "isolated":  # its size cannot be told: it scrolls
        expect(frame).to_have_css("height", "640px")
        assert (
            inside.locator("html").evaluate("node => getComputedStyle(node).overflowY") != "hidden"
        )
    else:
        expect(inside.locator(".hl").first).to_have_attribute("data-dark", "")
        height = inside.locator("html").evaluate("node => node.offsetHeight")
        expect(frame).to_have_css("height", f"{height}px")


# What a page exports: one file that shows the page's pictures without app or network.
PICTURES = {
    "heads": ".hl .panel canvas",
    "start": ".hl canvas.main",
    "score": ".js-plotly-plot",
    "masks": ".hl canvas",
    "positions": ".js-plotly-plot",
    "model": ".machine .part",
    "decoding": ".hl .player .play",
}


@pytest.mark.parametrize("place", core(PICTURES, ("heads",)))
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
    expect(page.locator("body")).to_contain_text("I love you")
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
