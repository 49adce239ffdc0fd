"""What a visitor waits for: a mask's switch to the new translation, a hover to all heads lit."""

import time
from urllib.parse import urlencode

from playwright.sync_api import Page

from benchmarks.timing import quantiles_row
from explorer.text import t
from tests.browser.app import chromium, running_app

N_CLICKS = 10
MOVE = """async (canvas) => {
    const box = canvas.getBoundingClientRect();
    const milliseconds = [];
    for (let step = 0; step < 60; step += 1) {
        const at = { clientX: box.left + box.width * (0.2 + 0.6 * ((7 * step) % 60) / 60),
                     clientY: box.top + box.height * (0.2 + 0.6 * ((11 * step) % 60) / 60) };
        await new Promise(requestAnimationFrame);
        const move = new PointerEvent("pointermove", { ...at, bubbles: true, composed: true });
        const start = performance.now();
        canvas.dispatchEvent(move);
        document.body.getBoundingClientRect(); // the layout that the hover has made necessary
        milliseconds.push(performance.now() - start);
    }
    return milliseconds;
}"""


def run() -> list[str]:
    """Median and slowest of ten clicks, and of sixty hovers at 24 and at 128 tokens."""
    with chromium() as browser:
        page = browser.new_context(viewport={"width": 1440, "height": 1000}).new_page()
        page.set_default_timeout(120_000)
        with running_app() as address:
            lines = [
                quantiles_row("mask switched, click to the new translation", clicks(page, address))
            ]
        with running_app("benchmarks/many_heads.py") as address:
            for tokens in (24, 128):
                name = f"hover, 72 heads x {tokens} tokens, script and layout"
                lines.append(quantiles_row(name, hovers(page, address, tokens)))
    return lines


def clicks(page: Page, address: str) -> list[float]:
    """Seconds from a click on the causal mask's switch to the line that says what it changed."""
    link = {"lang": "en", "text": "I like you because you are kind."}
    page.goto(f"{address}/masks?{urlencode(link)}")
    switch = page.get_by_text(t("edits.causal", lang="en"), exact=True).first
    switch.wait_for()
    changed = page.get_by_text(t("edits.active", lang="en")).first
    seconds = []
    for turn in range(N_CLICKS):
        started = time.perf_counter()
        switch.click()
        changed.wait_for(state="visible" if turn % 2 == 0 else "detached")
        seconds.append(time.perf_counter() - started)
        page.wait_for_function(
            "() => document.querySelector('[data-testid=stApp]')"
            ".getAttribute('data-test-script-state') === 'notRunning'"
        )
    return seconds


def hovers(page: Page, address: str, tokens: int) -> list[float]:
    """Seconds that a pointer's move over the large map takes until every thumbnail is lit."""
    page.goto(f"{address}?tokens={tokens}")
    canvas = page.locator(".hl canvas.sheet").first
    canvas.wait_for()
    canvas.scroll_into_view_if_needed()
    milliseconds: list[float] = canvas.evaluate(MOVE)
    return [each / 1000 for each in milliseconds]
