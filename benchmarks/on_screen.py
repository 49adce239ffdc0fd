"""A saved picture (`hl.show`) of 12 x 12 heads x 128 tokens: file size and time to display."""

import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser

import explorer as hl
from benchmarks.timing import quantiles_row
from tests.browser.app import chromium

N_OPENED = 9
# "On screen" is the presentation of the first frame in which all visible sheets of thumbnails are
# painted. A frame callback runs before painting, so the marker that it adds is presented in the
# same frame, at a time that Element Timing reports.
WATCH = """
const painted = new WeakSet();
const draw = CanvasRenderingContext2D.prototype.drawImage;
CanvasRenderingContext2D.prototype.drawImage = function (...given) {
    painted.add(this.canvas);
    return draw.apply(this, given);
};
window.onScreen = new Promise((resolve) => {
    const look = () => {
        const there = [...document.querySelectorAll(".sheets canvas")].filter((canvas) => {
            const { top, bottom } = canvas.getBoundingClientRect();
            return bottom > 0 && top < innerHeight;
        });
        if (!there.length || !there.every((canvas) => painted.has(canvas))) {
            requestAnimationFrame(look);
            return;
        }
        const mark = document.createElement("b");
        mark.setAttribute("elementtiming", "all");
        mark.style.cssText = "position: fixed; left: 0; top: 0";
        mark.textContent = "all";
        document.body.append(mark);
    };
    requestAnimationFrame(look);
    const told = (entries) => resolve(entries.getEntries()[0].renderTime);
    new PerformanceObserver(told).observe({ type: "element", buffered: true });
});
"""


def run() -> list[str]:
    """Megabytes, and milliseconds from the start of the navigation (file://) to the screen."""
    generator = np.random.default_rng(0)
    patterns = generator.random((12, 12, 128, 128)) ** 8
    patterns /= patterns.sum(-1, keepdims=True)
    with tempfile.TemporaryDirectory() as folder:
        tokens = [f"t{at}" for at in range(128)]
        file = hl.show(patterns, tokens).save(Path(folder) / "heads.html")
        with chromium() as browser:
            opened(browser, file)  # the browser's own first page
            seconds = [opened(browser, file) for _ in range(N_OPENED)]
        size = file.stat().st_size / 1e6
    return [
        f"{'saved picture of 12 x 12 heads x 128 tokens':<58} {size:9.2f} MB",
        quantiles_row("from opening it to all thumbnails in sight", seconds),
    ]


def opened(browser: Browser, file: Path) -> float:
    """Seconds until the file is on the screen of a page of its own."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.add_init_script(WATCH)
    page.goto(file.as_uri())
    milliseconds: float = page.evaluate("onScreen")
    page.close()
    return milliseconds / 1000
