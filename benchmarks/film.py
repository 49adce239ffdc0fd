"""Record the animation of the README: the page Start with its first sentence, in Chromium.

    python -m benchmarks.film docs/start.gif

It plays the whole picture once, opens a head, and switches the causal mask off. Every frame is a
screenshot at a simulated time, so the film does not depend on the speed of the machine.
"""

import argparse
import io
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from PIL import Image, ImageColor
from playwright.sync_api import Page

from explorer.figures.theme import LIGHT
from explorer.text import t
from tests.browser.app import chromium, running_app

WIDTH, HEIGHT = 1440, 900
CLIP = {"x": 0, "y": 72, "width": 1440, "height": 690}
SHOWN = 960
"""Width of the film in pixels; screenshots are larger, so that text is smooth."""
RATE = 12
"""Frames per second."""
PLAYED = 9.0
"""Seconds for the whole animation, which takes longer in the app."""
OPENED = 3.6
"""Seconds for a head: scores, mask, softmax, output."""
STILL = 1.4
"""Seconds for which each result is shown."""
TEXT = "She reads a book every morning."


def frames(page: Page) -> Iterator[tuple[Image.Image, float]]:
    """Each picture, and the seconds for which it is shown."""
    scrub = page.get_by_label(t("components.start.step", lang="en"), exact=True)
    n_frames = round(PLAYED * RATE)
    for at in range(n_frames):
        scrub.evaluate(
            "(node, share) => { node.value = share; node.dispatchEvent(new Event('input')) }",
            at / (n_frames - 1),
        )
        yield shot(page), 1 / RATE
    yield shot(page), STILL
    open_head(page)
    # Chromium's clock is paused, so that each step advances by one frame.
    for _ in range(round(OPENED * RATE)):
        page.clock.run_for(round(1000 / RATE))
        yield shot(page), 1 / RATE
    yield shot(page), STILL
    page.get_by_role("button", name=t("components.start.close", lang="en"), exact=True).click()
    settle(page)
    page.get_by_text(t("start.masks.causal", lang="en"), exact=True).click()
    page.locator(".hl .said del").first.wait_for()
    settle(page)
    yield shot(page), 2 * STILL


def open_head(page: Page) -> None:
    """Open the decoder's last head, with time paused at the start of its animation."""
    page.clock.install()
    place = (t("start.block", lang="en", number=3), t("start.kinds.decoder", lang="en"))
    page.get_by_role("button", name=", ".join(place)).press("Enter")
    for _ in range(400):  # Streamlit's timers are paused too
        page.clock.run_for(1)
        page.wait_for_timeout(50)
        if page.locator(".hl .open").count():
            return
    raise RuntimeError("the head did not open")


def settle(page: Page) -> None:
    """Wait until the app has drawn everything."""
    for _ in range(20):
        page.clock.run_for(100)
        page.wait_for_timeout(30)


def shot(page: Page) -> Image.Image:
    """A screenshot of the sentence and the picture, in the film's size."""
    picture = Image.open(io.BytesIO(page.screenshot(clip=CLIP))).convert("RGB")
    return picture.resize((SHOWN, round(SHOWN * picture.height / picture.width)), Image.LANCZOS)


def colours() -> list[int]:
    """Up to 256 colours of the light palette: its ramps, and fading tints of each colour.

    A palette computed from the frames would lose rare colours such as the target's.
    """
    named = (LIGHT.ink, LIGHT.muted, LIGHT.source, LIGHT.target, LIGHT.accent, LIGHT.line)
    others = (LIGHT.query, LIGHT.key, LIGHT.value, LIGHT.hatch, "#f8f7fc", "#000000")
    white = (255, 255, 255)
    found = [
        mixed(white, ImageColor.getrgb(colour), share / 9)
        for colour in named + others
        for share in range(1, 10)
    ]
    for ramp in (LIGHT.attention, LIGHT.diverging):
        stops = [ImageColor.getrgb(colour) for colour in ramp]
        found += [
            mixed(low, high, share / 15) for low, high in pairwise(stops) for share in range(16)
        ]
    return [part for colour in [white, *found][:256] for part in colour]


def mixed(low: tuple[int, ...], high: tuple[int, ...], share: float) -> tuple[int, ...]:
    """Interpolate between two colours, at `share`."""
    return tuple(round(a + (b - a) * share) for a, b in zip(low, high, strict=True))


def save(file: Path, taken: list[tuple[Image.Image, float]]) -> None:
    """Save with one palette for all frames, so that unchanged regions take no space."""
    pictures, seconds = zip(*taken, strict=True)
    palette = Image.new("P", (1, 1))
    palette.putpalette(colours())
    drawn = [each.quantize(palette=palette, dither=Image.Dither.NONE) for each in pictures]
    options: dict[str, Any] = {"append_images": drawn[1:], "save_all": True, "loop": 0}
    drawn[0].save(file, duration=[round(1000 * each) for each in seconds], **options)


def main() -> None:
    """Record the film and print its size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    file: Path = parser.parse_args().file
    with running_app() as address, chromium() as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, locale="en-GB")
        page.goto(f"{address}/?lang=en&text={TEXT.replace(' ', '+')}")
        page.locator("canvas.main").wait_for()
        page.get_by_role("button", name=t("components.start.pause", lang="en")).click()
        page.wait_for_timeout(1500)
        save(file, list(frames(page)))
    print(f"{file}: {file.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
