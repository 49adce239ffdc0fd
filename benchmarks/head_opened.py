"""Opening a head of a large model: time to its enlarged view and to its exact numbers.

`python -m benchmarks.head_opened --models DIR NAME`: the model NAME of a folder of models, read in
the app on one torch thread, with a text of some 64 tokens.
"""

import argparse
from urllib.parse import urlencode

from playwright.sync_api import Page

from benchmarks.timing import quantiles_row
from tests.browser.app import chromium, free_port, serving

TEXT = "The quick brown fox jumps over the lazy dog and then runs away from it . " * 4
N_CLICKS = 12
IDLE = (
    "() => document.querySelector('[data-testid=stApp]')"
    "?.getAttribute('data-test-script-state') === 'notRunning'"
)
# From a click to the frame after which the head is drawn large, and to the one with its own cells.
CLICK = """async (view, place) => {
    const heads = view.querySelectorAll("button.head");
    const head = heads[Math.round(place * (heads.length - 1))];
    const wanted = head.dataset.at.replace("head", "map");
    const frames = [];
    const start = performance.now();
    head.click();
    for (const state of ["", "[aria-busy=false]"]) {
        while (!view.querySelector(`.panel${state} [data-at="${wanted}"]`)) {
            await new Promise(requestAnimationFrame);
        }
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        frames.push((performance.now() - start) / 1000);
    }
    return frames;
}"""


def clicks(page: Page) -> tuple[list[float], list[float]]:
    """Seconds to the picture and to the exact picture, for heads across the grid."""
    view = page.locator(".hl").filter(has=page.locator("button.head")).first
    drawn, exact = [], []
    for turn in range(N_CLICKS):
        place = (turn * 5 % N_CLICKS + 0.5) / N_CLICKS
        seconds = view.evaluate(CLICK, place)
        drawn.append(seconds[0])
        exact.append(seconds[1])
        page.wait_for_function(IDLE)
    return drawn, exact


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", required=True, help="a folder of models")
    parser.add_argument("name", help="a model of that folder")
    given = parser.parse_args()
    port = free_port()
    start = "import sys; from explorer.cli import main; sys.exit(main())"
    command = ["-c", start, "app", "--models", given.models, "--port", str(port)]
    with serving(command, port), chromium() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(90_000)
        link = urlencode({"lang": "en", "model": given.name, "text": TEXT})
        page.goto(f"http://127.0.0.1:{port}/heads?{link}")
        page.locator(".hl .panel canvas").first.wait_for()
        page.wait_for_function(IDLE)
        page.wait_for_timeout(15_000)  # the mask tests in the background
        drawn, exact = clicks(page)
    print(quantiles_row("click on a head to its picture", drawn))
    print(quantiles_row("click on a head to its exact digits", exact))


if __name__ == "__main__":
    main()
