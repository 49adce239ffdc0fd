"""Interaction latency, from the press of a key or button until the new picture is painted.

    python -m benchmarks.interaction [PART …]

In Chromium, with a server on the same machine: the median and the slowest of `N_CLICKS`. No result
is cached before the click, unless the line says "again". With the masks comes the toggle of an app
of one line, in the same run, since machines differ.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Page, WebSocket

from benchmarks.first_picture import one_line
from benchmarks.timing import quantiles_row
from explorer.text import t
from tests.browser.app import chromium, running_app

N_CLICKS = 20
THINGS = (
    "apples", "birds", "books", "cars", "cats", "dogs", "flowers", "games", "girls", "horses",
    "houses", "letters", "men", "rivers", "roads", "schools", "shops", "students", "trains",
    "trees",
)  # fmt: skip
"""Sentences whose translation changes when the causal mask is off."""
WATCH = """() => {
    const watched = window.watched = { pressed: null, done: null };
    for (const kind of ["pointerup", "keydown"]) {
        addEventListener(kind, (event) => { watched.pressed = event.timeStamp; }, true);
    }
    for (const name of ["fillRect", "drawImage", "putImageData"]) {
        const draw = CanvasRenderingContext2D.prototype[name];
        CanvasRenderingContext2D.prototype[name] = function (...args) {
            this.canvas.drawn = performance.now();
            return draw.apply(this, args);
        };
    }
    // What is true at the beginning of a frame is painted at its end, and then messages arrive.
    watched.until = (isSo) => new Promise((resolve, reject) => {
        const last = performance.now() + 15000;
        const look = () => {
            if (performance.now() > last) { reject(new Error("nothing changed in 15 s")); return; }
            if (watched.pressed === null || !isSo()) { requestAnimationFrame(look); return; }
            const after = new MessageChannel();
            after.port1.onmessage = () => resolve(performance.now() - watched.pressed);
            after.port2.postMessage(null);
        };
        requestAnimationFrame(look);
    });
    watched.all = (selector) => { // in the shadow roots of components too
        const roots = [document];
        for (const place of document.querySelectorAll("[data-testid=stBidiComponentIsolated]")) {
            for (const each of [place, ...place.querySelectorAll("*")]) {
                if (each.shadowRoot) roots.push(each.shadowRoot);
            }
        }
        return roots.flatMap((root) => [...root.querySelectorAll(selector)]);
    };
    watched.text = (selector) => watched.all(selector).map((each) => each.textContent).join("|");
}"""
MOVE = """async (canvas) => {
    const box = canvas.getBoundingClientRect();
    const milliseconds = [];
    for (let step = 0; step < 60; step += 1) {
        const at = { clientX: box.left + box.width * (0.2 + 0.6 * ((7 * step) % 60) / 60),
                     clientY: box.top + box.height * (0.2 + 0.6 * ((11 * step) % 60) / 60) };
        await new Promise(requestAnimationFrame);
        const move = new PointerEvent("pointermove", { ...at, bubbles: true, composed: true });
        const start = performance.now();
        canvas.dispatchEvent(move);
        document.body.getBoundingClientRect(); // the layout that the hover has made necessary
        milliseconds.push(performance.now() - start);
    }
    return milliseconds;
}"""
SENTENCE = ".st-key-sentence"
ONE_TOGGLE = 'st.write("on" if st.toggle("Switch") else "off")'
"""The line of the app to compare with."""


@dataclass(frozen=True)
class Desk:
    """A browser page with a running app."""

    page: Page
    address: str

    def open(self, place: str, **state: str) -> None:
        """Open a page of the app and wait until it is idle."""
        link = {"lang": "en", "text": f"I like {THINGS[0]} because you are kind.", **state}
        self.page.goto(f"{self.address}/{place}?{urlencode(link)}")
        self.page.locator("[data-testid=stMain] canvas, .js-plotly-plot").first.wait_for()
        self.page.wait_for_timeout(1500)
        self.settle()

    def settle(self) -> None:
        """Wait until no script runs, and then for the minimum reading time."""
        self.page.wait_for_function(
            "() => document.querySelector('[data-testid=stApp]')"
            ".getAttribute('data-test-script-state') === 'notRunning'"
        )
        self.page.wait_for_timeout(400)

    def read(self, sentence: str) -> None:
        """Enter another sentence."""
        box = self.page.get_by_role("textbox", name=t("sidebar.sentence", lang="en"))
        box.fill(sentence)
        box.press("Control+Enter")
        self.page.wait_for_function(
            "words => document.querySelector('.st-key-sentence')?.innerText.includes(words)",
            arg=sentence,
        )
        self.settle()

    def clock(self, press: Callable[[], object], *changes: str) -> list[float]:
        """Seconds from a press until the new value of each of these expressions is painted."""
        self.page.evaluate(
            """changes => {
                watched.pressed = null;
                watched.done = Promise.all(changes.map((change) => {
                    const value = new Function("all", "text", "return " + change);
                    const look = () => value(watched.all, watched.text);
                    const before = look();
                    return watched.until(() => look() !== before);
                }));
            }""",
            list(changes),
        )
        press()
        milliseconds: list[float] = self.page.evaluate("() => watched.done")
        self.settle()
        return [each / 1000 for each in milliseconds]


def text_of(selector: str) -> str:
    """The text of all elements of this selector, as an expression for `Desk.clock`."""
    return f"text({selector!r})"


def named(beginning: str) -> str:
    """The line that begins with these words, as an expression for `Desk.clock`."""
    lines = "all('[data-testid=stMarkdown]').map((each) => each.textContent)"
    return f"{lines}.filter((each) => each.startsWith({beginning!r})).join()"


def drawn(selector: str) -> str:
    """When one of these canvases was drawn last, as an expression for `Desk.clock`."""
    return f"Math.max(...all({selector!r}).map((each) => each.drawn ?? 0))"


def switches(desk: Desk) -> Iterator[tuple[str, list[float]]]:
    """Switch the causal mask off, for sentences never run without it; then on and off again."""
    desk.open("masks")
    switch = desk.page.get_by_text(t("edits.rules.causal", lang="en"), exact=True).first
    first, again = [], []
    for thing in THINGS[:N_CLICKS]:
        desk.read(f"I like {thing} because you are kind.")
        first += desk.clock(switch.click, text_of(SENTENCE))
        again += desk.clock(switch.click, text_of(SENTENCE))
    yield "mask switched: the new translation", first
    yield "the same again", again


def toggles(desk: Desk) -> Iterator[tuple[str, list[float]]]:
    """Switch the toggle of a one-line app on and off."""
    desk.page.goto(desk.address)
    toggle = desk.page.get_by_text("Switch", exact=True)
    toggle.wait_for()
    desk.settle()
    seconds = []
    for _ in range(N_CLICKS):
        seconds += desk.clock(toggle.click, text_of("[data-testid=stMarkdown]"))
    yield "the toggle of a one-line app", seconds


def cells(desk: Desk) -> Iterator[tuple[str, list[float]]]:
    """Paint single cells of the decoder's matrix in turn."""
    desk.open("masks", pads="0", site="decoder", layer="1", head="1")
    desk.page.get_by_text(t("masks.tools.brush", lang="en"), exact=True).click()
    desk.settle()
    canvas = desk.page.locator(".st-key-masks-matrices canvas[data-at=cells1]")
    canvas.scroll_into_view_if_needed()
    desk.settle()
    box = canvas.bounding_box()
    assert box is not None
    live, answer = [], []
    for turn in range(N_CLICKS):
        right, down = turn % 5, turn // 5
        at = {"x": box["width"] * (0.42 + 0.11 * right), "y": box["height"] * (0.47 + 0.12 * down)}
        canvas.hover(position=at)
        desk.page.wait_for_timeout(300)
        seconds = desk.clock(
            lambda at=at: canvas.click(position=at),  # type: ignore[misc]
            drawn("canvas[data-at=cells1]"),
            named(t("edits.active", lang="en")),
        )
        live.append(seconds[0])
        answer.append(seconds[1])
    yield "cell painted: the stroke", live
    yield "cell painted: what it changed, in words", answer


def heads_off(desk: Desk) -> Iterator[tuple[str, list[float]]]:
    """Ablate heads cumulatively, so that each click needs a new run."""
    desk.open("heads")
    off = []
    for turn in range(N_CLICKS):
        if turn:
            desk.page.locator(f"[data-at=head{turn}]").click()
            desk.settle()
        switch = desk.page.locator(".st-key-heads-off label").first
        switch.scroll_into_view_if_needed()
        desk.settle()
        off += desk.clock(switch.click, named(t("edits.active", lang="en")))
    yield "head switched off: the new run", off


def opened(desk: Desk) -> Iterator[tuple[str, list[float]]]:
    """Heads of other layers opened on the map of all heads."""
    desk.open("heads")
    live, answer, said = [], [], []
    for turn in range(N_CLICKS):
        index = (turn * 11 + 9) % 24
        seconds = desk.clock(
            desk.page.locator(f"[data-at=head{index}]").click,
            "all('.panel').map((each) => each.ariaLabel).join()",
            "all('.panel[aria-busy=false]').map((each) => each.ariaLabel).join()",
            text_of(".st-key-reading-heads"),
        )
        for kept, value in zip((live, answer, said), seconds, strict=True):
            kept.append(value)
    yield "head of another layer: its picture", live
    yield "head of another layer: with all digits", answer
    yield "head of another layer: read out in words", said


def films(desk: Desk) -> Iterator[tuple[str, list[float]]]:
    """The decoding animation, step by step."""
    desk.open("decoding", text="I like the old house near the river and the small garden.")
    live = []
    for turn in range(N_CLICKS):
        place = "next" if turn // 8 % 2 == 0 else "back"
        button = desk.page.locator(f"[data-at={place}]").first
        live += desk.clock(button.click, text_of(".player .count"))
        desk.page.wait_for_timeout(600)  # it reports its final step to the server
        desk.settle()
    yield "a step of the film", live


def layers(desk: Desk) -> Iterator[tuple[str, list[float]]]:
    """Select another layer in the menu, where the server computes the picture."""
    for place, seen, name in (
        ("masks", drawn("canvas[data-at^=cells]"), "patterns"),
        ("score", text_of("[data-testid=stMetric]"), "numbers"),
    ):
        desk.open(place, layer="1", head="1", row="2")
        menu = desk.page.locator(f".st-key-{place}-layer input").first
        menu.scroll_into_view_if_needed()
        seconds = []
        for turn in range(N_CLICKS):
            menu.click()
            layer = desk.page.get_by_role("option", name=str((turn + 1) % 3 + 1), exact=True)
            layer.wait_for()
            desk.page.wait_for_timeout(300)
            seconds += desk.clock(layer.click, seen)
            desk.settle()  # a menu that is opened before is closed by the end of the run
        yield f"another layer on {place}: its {name}", seconds


def sent(desk: Desk) -> Iterator[str]:
    """What the server sends for one switch of the causal mask, then with the polls for its tests,
    and for the way back."""
    sizes: list[int] = []

    def listen(socket: WebSocket) -> None:
        socket.on("framereceived", lambda frame: sizes.append(len(frame)))

    desk.page.on("websocket", listen)
    desk.open("masks")
    switch = desk.page.get_by_text(t("edits.rules.causal", lang="en"), exact=True).first
    for name in ("mask switched", "and back"):
        sizes.clear()
        switch.click()
        for seconds in (0.8, 3):  # the first poll is sent after a second
            desk.page.wait_for_timeout(1000 * seconds)
            yield f"{name}: {len(sizes)} messages, {sum(sizes) / 1000:.0f} kB"
        desk.settle()


def hovers(desk: Desk, tokens: int) -> list[float]:
    """Seconds from a pointer move over the large map until every thumbnail is highlighted."""
    desk.page.goto(f"{desk.address}?tokens={tokens}")
    canvas = desk.page.locator(".hl canvas.sheet").first
    canvas.wait_for()
    canvas.scroll_into_view_if_needed()
    milliseconds: list[float] = canvas.evaluate(MOVE)
    return [each / 1000 for each in milliseconds]


PARTS: dict[str, Callable[[Desk], Iterator[tuple[str, list[float]]]]] = {
    "masks": switches,
    "cells": cells,
    "off": heads_off,
    "opened": opened,
    "film": films,
    "layers": layers,
}


def run(parts: tuple[str, ...] = (*PARTS, "sent", "hover")) -> Iterator[str]:
    """One line per kind of click: the median and the slowest."""
    with chromium() as browser:
        window = browser.new_context(
            viewport={"width": 1440, "height": 1000},
            bypass_csp=True,  # `clock` makes functions of text, which the app's pages may not
        )
        page = window.new_page()
        page.set_default_timeout(20_000)
        page.add_init_script(f"({WATCH})()")
        with running_app() as address:
            for part in parts:
                if part in PARTS:
                    for name, seconds in PARTS[part](Desk(page, address)):
                        yield quantiles_row(f"{name} ({len(seconds)})", seconds)
            if "sent" in parts:
                yield from sent(Desk(page, address))
        if "masks" in parts:
            with one_line(ONE_TOGGLE) as script, running_app(script) as address:
                for name, seconds in toggles(Desk(page, address)):
                    yield quantiles_row(f"{name} ({len(seconds)})", seconds)
        if "hover" in parts:
            with running_app("benchmarks/many_heads.py") as address:
                for tokens in (24, 128):
                    name = f"hover, 72 heads x {tokens} tokens, script and layout"
                    yield quantiles_row(name, hovers(Desk(page, address), tokens))


def main() -> None:
    """Measure, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every: Any = (*PARTS, "sent", "hover")
    choices = [*every, "all"]  # "*" accepts no list as its default before Python 3.12
    parser.add_argument("parts", nargs="*", choices=choices, default="all", metavar="PART")
    parts = parser.parse_args().parts
    for line in run(every if "all" in parts else tuple(parts)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
