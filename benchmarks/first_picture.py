"""From `streamlit run app.py` to Start's picture on the screen of a fresh Chromium."""

import time

from tests.browser.app import chromium, running_app

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
        if (roots.some(root => drawn(root.querySelector(picture))))
            requestAnimationFrame(() => { window.pictureSeen = performance.now(); });
        else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
})"""
    + f"({PICTURE!r})"
)
"""Checks in every frame whether the picture has content, and records when the next frame begins, in
milliseconds from the start of navigation: then it is on the screen. (A query from outside would be
answered only after the charts are drawn too.)"""


def run() -> list[str]:
    """Seconds to the server's first response, the first picture, and that of a second session."""
    with chromium() as browser:
        started = time.perf_counter()
        with running_app() as address:
            answered = time.perf_counter() - started
            seconds = []
            for _ in range(2):
                page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
                page.add_init_script(SEEN)
                page.goto(address)
                page.wait_for_function("() => window.pictureSeen", timeout=60_000)
                seconds.append(page.evaluate("window.pictureSeen") / 1000)
                page.context.close()
            first = answered + seconds[0]
    return [
        f"{'streamlit run to its first answer':<58} {answered:9.2f} s",
        f"{'streamlit run to the first picture, first visitor':<58} {first:9.2f} s",
        f"{'opening the page to the picture, a later visitor':<58} {seconds[1]:9.2f} s",
    ]


if __name__ == "__main__":
    print("\n".join(run()))
