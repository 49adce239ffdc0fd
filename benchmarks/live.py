"""The exported page: time to its first picture on a slow phone, a sentence's time, size, accuracy.

`python -m benchmarks.live [MODEL …]`, of `en-zh` and `stories` by default. The first picture is
timed with a processor slowed down four times and 10 Mbit/s with 40 ms of latency, from an empty
cache in a fresh browser; sentences run at full speed.
"""

import functools
import http.server
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from playwright.sync_api import Page

from explorer import text
from explorer.analysis.start.flow import flow
from explorer.library import LoadedModel, open_model
from explorer.live.site import MOST_NEW, write_live
from explorer.live.weights import MOST, Precision
from explorer.runs.generation import generate
from explorer.runs.trace import trace
from models.pictures import patches_of, picture_of
from models.strategies import Greedy
from tests.browser.app import chromium

SLOWER, BYTES, LATENCY = 4, 10e6 / 8, 40
N_FIRST, N_SENTENCES = 3, 12
DRAWN = """
const look = () => {
    const canvas = document.querySelector(".in-start canvas.main");
    const drawn = canvas && canvas.width && canvas.height && canvas.getContext("2d")
        .getImageData(0, 0, canvas.width, canvas.height).data.some(value => value > 0);
    requestAnimationFrame(drawn ? () => { window.pictureSeen = performance.now(); } : look);
};
requestAnimationFrame(look);
"""
"""Checks in every frame whether the picture has content; the next frame shows it."""
READY = """async () => {
    const isReady = () => window.headlight?.model && window.pictureSeen;
    while (!isReady()) await new Promise(requestAnimationFrame);
    return [window.pictureSeen / 1000, performance.now() / 1000];
}"""
IN_PAGE = """text => {
    const { model, tokenizer, flowOf } = window.headlight;
    const began = performance.now();
    const flow = flowOf(model, tokenizer, text);
    const took = performance.now() - began;
    const sites = flow.lanes.flatMap(lane => lane.blocks.flat().map(site => site.seen));
    return [took, flow.said, sites.map(({ n, nKeys, pattern }) => [n, nKeys, [...pattern]])];
}"""
"""A sentence in the page: milliseconds, its output, and the weights of every attention."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A web server of static files; its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def first_picture(folder: Path) -> tuple[float, float]:
    """Seconds to the picture, and to the running model, in a fresh browser on a slow phone."""
    with served(folder) as address, chromium() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.add_init_script(DRAWN)
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        conditions = {"latency": LATENCY, "downloadThroughput": BYTES, "uploadThroughput": BYTES}
        session.send("Network.emulateNetworkConditions", {"offline": False, **conditions})
        session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
        page.goto(address, wait_until="commit")
        seen, ready = page.evaluate(READY)
        return seen, ready


def sentence(page: Page, loaded: LoadedModel, text: str) -> tuple[float, float, bool]:
    """Milliseconds of a sentence in the page, and whether it agrees with torch: the largest
    difference of a weight if the output is the same, and whether it is."""
    picture = loaded.config.picture
    read = patches_of(picture_of(text, picture), picture).tolist() if picture else text
    took, said, sites = page.evaluate(IN_PAGE, read)
    made = generate(loaded, text, Greedy(), MOST if "src" in loaded.model.reads else MOST_NEW)
    found = flow(loaded, trace(loaded, text), made)
    if said != found.steps[-1].text:
        return took, 0.0, False
    ours = (site.pattern for lane in found.lanes for block in lane.blocks for site in block)
    apart = (
        np.abs(np.reshape(values, (-1, n, n_keys)) - pattern).max()
        for pattern, (n, n_keys, values) in zip(ours, sites, strict=True)
    )
    return took, max(map(float, apart)), True


def row(name: str, precision: Precision) -> str:
    """One model in one precision as a row."""
    loaded = open_model(name)
    groups = text.examples(name, like=loaded.like).values()
    examples = [each for group in groups for each in group][:N_SENTENCES]
    with TemporaryDirectory() as folder:
        written = write_live(loaded, Path(folder), precision)
        with chromium() as browser:
            page = browser.new_page()
            page.goto((Path(folder) / "index.html").as_uri())
            page.add_init_script(DRAWN)
            page.reload()
            page.evaluate(READY)
            measured = [sentence(page, loaded, each) for each in examples]
        firsts = [first_picture(Path(folder)) for _ in range(N_FIRST)]
    times = [took for took, *_ in measured]
    same = sum(is_same for *_, is_same in measured)
    return (
        f"{name:<10} {precision:<8} {written.n_bytes / 1e6:6.1f} MB"
        f"  sentence {median(times):4.0f} ms, at most {max(times):4.0f}"
        f"  first picture {median(seen for seen, _ in firsts):5.2f} s,"
        f" at most {max(seen for seen, _ in firsts):5.2f},"
        f" model {median(ready for _, ready in firsts):5.2f} s"
        f"  weights within {max(off for _, off, _ in measured):.1e}"
        f"  same output {same} of {len(examples)}"
    )


def main(names: list[str]) -> None:
    for name in names or ["en-zh", "stories"]:
        print(row(name, "int8"), flush=True)
        print(row(name, "float32"), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
