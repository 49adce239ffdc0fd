"""Failover after a worker is killed: recovery time, and the effect on other sessions.

    python -m benchmarks.takeover

Two workers share one address, with one session on each, in Chromium. One worker is killed with
SIGKILL. Measured is the time until the other worker has drawn its session's page in the same state.
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
from tests.browser.app import chromium, running_workers

N_TRIES = 5
SENTENCE = "The old teacher reads a letter."
DRAWN = """() => document.querySelector('[data-testid=stApp]')
    ?.getAttribute('data-test-script-state') === 'notRunning'
    && !document.querySelector('[data-stale=true]')
    && !document.querySelector('[data-testid=stConnectionStatus]')"""

WATCH = """() => new MutationObserver(() => { window.hasRun = true; }).observe(
    document.body, { subtree: true, attributeFilter: ['data-test-script-state'] })"""
"""Notes when the script runs again: the page of a killed worker looks drawn until then."""

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


def command(pid: int) -> bytes:
    """The command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def _note(seen: list[Page], page: Page, _: object) -> None:
    seen.append(page)


def has_run(page: Page) -> bool:
    """Whether the script of a page has run again."""
    return bool(page.evaluate("window.hasRun"))


def run() -> list[str]:
    """Seconds until the session of a killed worker is back, and whether the other was affected."""
    seconds, n_disturbed = [], 0
    with chromium() as browser:
        for _ in range(N_TRIES):
            with running_workers() as (address, server):
                pages = [visitor(browser, address, head) for head in (2, 3)]
                links, reconnected = [page.url for page in pages], list[Page]()
                for page in pages:
                    page.evaluate(WATCH)
                    page.on("websocket", partial(_note, reconnected, page))
                worker = next(pid for pid in tree(server) if b"explorer.workers" in command(pid))
                os.kill(worker, signal.SIGKILL)
                began = time.perf_counter()
                while not (lost := next(filter(has_run, reconnected), None)):
                    pages[0].wait_for_timeout(20)
                lost.locator(HEATMAP).first.wait_for(state="attached")
                lost.wait_for_function(DRAWN)
                lost.get_by_text(SENTENCE).first.wait_for()
                seconds.append(time.perf_counter() - began)
                assert [page.url for page in pages] == links
                n_disturbed += len(set(reconnected)) > 1
                for page in pages:
                    page.context.close()
    return [
        f"{'worker killed, until its page is drawn again':<58} "
        f"{statistics.median(seconds):9.2f} s   slowest {max(seconds):.2f} s",
        f"the other worker's visitor: {'DISTURBED' if n_disturbed else 'undisturbed'}",
    ]


if __name__ == "__main__":
    print(*run(), sep="\n")
