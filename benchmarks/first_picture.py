"""From `streamlit run app.py` to the first heatmap on the screen of a fresh Chromium."""

import time

from tests.browser.app import chromium, running_app

HEATMAP = ".hl .panel canvas"


def run() -> list[str]:
    """Seconds to the server's first answer, to the first heatmap, and to a second visitor's."""
    with chromium() as browser:
        started = time.perf_counter()
        with running_app() as address:
            answered = time.perf_counter() - started
            seconds = []
            for _ in range(2):
                page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
                opened = time.perf_counter()
                page.goto(address)
                page.locator(HEATMAP).first.wait_for(state="attached", timeout=60_000)
                seconds.append(time.perf_counter() - opened)
            first = answered + seconds[0]
    return [
        f"{'streamlit run to its first answer':<58} {answered:9.2f} s",
        f"{'streamlit run to the first heatmap, first visitor':<58} {first:9.2f} s",
        f"{'opening the page to the heatmap, a later visitor':<58} {seconds[1]:9.2f} s",
    ]
