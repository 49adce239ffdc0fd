"""A worker is killed: how soon its visitors are back, and what the others notice.

    python -m benchmarks.takeover

Two workers behind one address, a visitor at each, in Chromium. The first one's worker is killed
with SIGKILL; timed is the way from there to her page, in her state, drawn by the other worker.
"""

import os
import signal
import statistics
import time
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page

from benchmarks.visitors import tree
from explorer.workers import COOKIE
from tests.browser.app import chromium, running_workers

N_TRIES = 5
SENTENCE = "The old teacher reads a letter."
DRAWN = """() => document.querySelector('[data-testid=stApp]')
    ?.getAttribute('data-test-script-state') === 'notRunning'
    && !document.querySelector('[data-stale=true]')
    && !document.querySelector('[data-testid=stConnectionStatus]')"""

HEATMAP = ".hl .panel canvas"
"""The large heatmap of Heads."""


def visitor(browser: Browser, address: str, head: int) -> Page:
    """Somebody who looks at her sentence and at one head of it."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.set_default_timeout(120_000)
    query = {"lang": "en", "text": SENTENCE, "layer": 1, "head": head}
    page.goto(f"{address}/heads?{urlencode(query)}")
    page.locator(HEATMAP).first.wait_for(state="attached")
    page.wait_for_function(DRAWN)
    return page


def worker_of(page: Page) -> str:
    """The number of the worker that serves a page."""
    return next(each["value"] for each in page.context.cookies() if each["name"] == COOKIE)


def _note(seen: list[object], event: object) -> None:
    seen.append(event)


def run() -> list[str]:
    """Seconds until a killed worker's visitor is back, and whether the other noticed."""
    seconds, undisturbed = [], True
    with chromium() as browser:
        for _ in range(N_TRIES):
            with running_workers() as (address, server):
                pages = {}
                for head in (2, 3):
                    page = visitor(browser, address, head)
                    pages[worker_of(page)] = page
                lost, kept = pages["0"], pages["1"]
                again: list[object] = []  # a second websocket would mean that the first one broke
                kept.on("websocket", partial(_note, again))
                before = lost.url
                first = tree(server)[1]  # started first: worker 0
                assert b"explorer.workers" in Path(f"/proc/{first}/cmdline").read_bytes()
                with lost.expect_event("websocket") as _:
                    os.kill(first, signal.SIGKILL)
                    began = time.perf_counter()
                lost.locator(HEATMAP).first.wait_for(state="attached")
                lost.wait_for_function(DRAWN)
                lost.get_by_text(SENTENCE).first.wait_for()
                seconds.append(time.perf_counter() - began)
                assert lost.url == before, (lost.url, before)
                undisturbed = undisturbed and not again
                for page in pages.values():
                    page.context.close()
    return [
        f"{'worker killed, until its visitor sees her page again':<58} "
        f"{statistics.median(seconds):9.2f} s   slowest {max(seconds):.2f} s",
        f"the other worker's visitor: {'undisturbed' if undisturbed else 'DISTURBED'}",
    ]


if __name__ == "__main__":
    print(*run(), sep="\n")
