"""Failover after a worker is killed: recovery time, and the effect on other sessions.

    python -m benchmarks.takeover

Two workers share one address, with one session on each, in Chromium. The worker of the first
session is killed with SIGKILL. Measured is the time until the other worker has drawn that session's
page in the same state.
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
    """Open a session with a sentence of its own and one head."""
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
    """Seconds until the session of a killed worker is back, and whether the other was affected."""
    seconds, undisturbed = [], True
    with chromium() as browser:
        for _ in range(N_TRIES):
            with running_workers() as (address, server):
                pages = {}
                for head in (2, 3):
                    page = visitor(browser, address, head)
                    pages[worker_of(page)] = page
                lost, kept = pages["0"], pages["1"]
                again: list[object] = []  # a second websocket means that the first one broke
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
