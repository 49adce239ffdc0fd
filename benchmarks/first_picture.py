"""When a visitor sees Start's picture, compared with the text of a one-line Streamlit app.

    python -m benchmarks.first_picture

Both in the same run, since machines differ: from `streamlit run` to the first visitor's picture; a
later visitor's; ten seconds later, when the server has imported all that it needs, one's over
10 Mbit/s with a processor four times slower; and 50 first visits at the same moment to two workers
(without browsers: the page with its picture and the scripts that draw it; for the one-line app its
page, its scripts, and a session until its text has arrived).
"""

import asyncio
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser

from benchmarks.visitors import first_text, quantile
from tests.browser.app import chromium, running_app, running_workers

PICTURE = ".hl canvas.main"
"""The picture of Start."""
SEEN = (
    """(picture => {
    const roots = [], attach = Element.prototype.attachShadow;
    Element.prototype.attachShadow = function (how) {
        const root = attach.call(this, how);
        roots.push(root);
        return root;
    };
    const drawn = canvas => canvas && canvas.width && canvas.height && canvas.getContext("2d")
        .getImageData(0, 0, canvas.width, canvas.height).data.some(value => value > 0);
    const look = () => {
        if (roots.some(root => drawn(root.querySelector(picture)))
                || document.querySelector("[data-testid=stMarkdown] p"))
            requestAnimationFrame(() => { window.pictureSeen = performance.now(); });
        else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
})"""
    + f"({PICTURE!r})"
)
"""Checks in every frame whether the picture has content, or the one-line app its text, and records
when the next frame begins, in milliseconds from the start of navigation: then it is on the screen.
(A query from outside would be answered only after the charts are drawn too.)"""
SLOW = 10e6 / 8, 4
"""Bytes per second of a slow line, and how many times slower its processor is."""
AT_ONCE = 50


@contextmanager
def one_line(line: str = 'st.write("x")') -> Iterator[str]:
    """The script of a one-line app."""
    with TemporaryDirectory() as folder:
        script = Path(folder, "one_line.py")
        script.write_text(f"import streamlit as st\n{line}\n")
        yield str(script)


def seconds_until_seen(browser: Browser, address: str, slow: bool = False) -> float:
    """Seconds from the start of navigation in a fresh browser profile."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.add_init_script(SEEN)
    if slow:
        line, processor = SLOW
        devtools = page.context.new_cdp_session(page)
        network = {"offline": False, "latency": 20, "downloadThroughput": line}
        devtools.send("Network.emulateNetworkConditions", {**network, "uploadThroughput": line})
        devtools.send("Emulation.setCPUThrottlingRate", {"rate": processor})
    page.goto(address, wait_until="commit")
    page.wait_for_function("() => window.pictureSeen", timeout=60_000)
    seen: float = page.evaluate("window.pictureSeen") / 1000
    page.context.close()
    return seen


def visits(browser: Browser, script: str) -> tuple[float, float, float]:
    """Seconds from `streamlit run`, of a later visitor, and of one with a slow line."""
    started = time.perf_counter()
    with running_app(script) as address:
        answered = time.perf_counter() - started
        first = answered + seconds_until_seen(browser, address)
        later = seconds_until_seen(browser, address)
        time.sleep(10)
        return first, later, seconds_until_seen(browser, address, slow=True)


def fetched(address: str) -> str:
    with urllib.request.urlopen(address, timeout=60) as answer:
        text: str = answer.read().decode()
    return text


def our_visit(address: str) -> None:
    """What a browser needs to draw the first picture."""
    html = fetched(address)
    assert 'data-first="' in html
    script = re.search(r'data-script="\./([^"]+)"', html)
    assert script is not None
    fetched(f"{address}/{script[1]}")


def plain_visit(address: str) -> None:
    """What a browser needs to show the text of the one-line app."""
    for script in re.findall(r'"\./(static/js/[^"]+)"', fetched(address)):
        fetched(f"{address}/{script}")
    asyncio.run(first_text(address.replace("http", "ws", 1)))


def burst(address: str, visit: Callable[[str], None]) -> float:
    """Seconds that 95 % of `AT_ONCE` simultaneous visits need at most."""

    def timed(_: int) -> float:
        started = time.perf_counter()
        visit(address)
        return time.perf_counter() - started

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return quantile(list(threads.map(timed, range(AT_ONCE))), 0.95)


def run() -> list[str]:
    """A row per situation: ours, the one-line app's, and the ratio."""
    names = ("streamlit run → first picture", "a later visitor", "10 Mbit/s, processor × 4 slower")
    with one_line() as script:
        with chromium() as browser:
            both = list(zip(visits(browser, "app.py"), visits(browser, script), strict=True))
        with running_workers() as (address, _):
            ours = burst(address, our_visit)
        with running_app(script) as address:
            both.append((ours, burst(address, plain_visit)))
    rows = zip((*names, f"{AT_ONCE} at once, p95"), both, strict=True)
    return [
        f"{name:<40} {ours:6.2f} s {plain:6.2f} s {ours / plain:6.2f} ×"
        for name, (ours, plain) in rows
    ]


if __name__ == "__main__":
    print("\n".join(run()))
