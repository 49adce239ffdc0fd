"""Every page in every state, in a real browser: languages, widths, themes, families of models.

    python -m tests.walk FOLDER [--pages heads,masks] [--langs zh] [--widths 390] [--themes dark]

On each: no error in the console, no word of another script's making (a name of `assets/text`, a
placeholder that nobody filled), nothing wider than the window, no figure without content. A picture
of each is kept in FOLDER, named after its state. Exits with 1 where anything was found, after all
were seen. Pages with more than 90 words in sight in 1440 x 900 pixels are printed, which is no
fault yet. `make walk` and the public CI run it; it takes minutes, so `make test` does not.
"""

import argparse
import itertools
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Browser, ConsoleMessage, Page

from explorer.pages import HOME, PAGES
from explorer.text import LANGUAGES, words
from tests.browser.app import chromium, running_app

MODELS = ("en-zh", "stories", "masked-en")
"""One of each family: a translator, a model of one text, an encoder."""
WIDTHS = (1440, 390)
THEMES = ("light", "dark")
PATIENCE = 60_000
HEIGHT, TALLEST = 900, 12_000
SETTLED = """() => {
    const main = document.querySelector('[data-testid=stMain]');
    const drawn = document.querySelector('[data-testid=stApp]')
        ?.getAttribute('data-test-script-state') === 'notRunning'
        && main?.querySelector('[data-testid=stMarkdown]')
        && !document.querySelector('[data-stale=true], [data-testid=stProgress]');
    const height = drawn ? main.scrollHeight : 0;
    window.walked = height && window.walked?.height === height
        ? { height, times: window.walked.times + 1 } : { height, times: 0 };
    return window.walked.times >= 4;
}"""
"""Drawn, without work in progress, and of the same height in five looks: charts come later."""
LOOKS = 150  # milliseconds between two of them
MOST_WORDS = 90
LISTS = ("models", "card", "glossary")
"""Pages that are lists of words by nature."""
WORDS = r"""() => {
    const clips = (style) => style.overflowX !== 'visible' || style.overflowY !== 'visible';
    const isIn = (box, around) => box.left < around.right && box.right > around.left
        && box.top < around.bottom && box.bottom > around.top;
    const screen = { left: 0, top: 0, right: innerWidth, bottom: innerHeight };
    const shares = (text) => {
        if (text.parentElement?.checkVisibility() === false) return 0;
        const range = document.createRange();
        range.selectNodeContents(text);
        const boxes = [...range.getClientRects()];
        let seen = boxes.filter((box) => box.width > 1 && isIn(box, screen));
        for (let node = text.parentNode; node && seen.length; node = node.parentNode ?? node.host) {
            if (!(node instanceof Element)) continue;
            const [style, around] = [getComputedStyle(node), node.getBoundingClientRect()];
            if (style.visibility === 'hidden' || node.matches(HIDDEN)) return 0;
            if (!clips(style)) continue;
            if (around.width < 2) return 0; // for screen readers
            seen = seen.filter((box) => isIn(box, around));
        }
        return boxes.length ? seen.length / boxes.length : 0;
    };
    const PER_WORD = 1.7;
    const HIDDEN = 'style, .katex, [data-testid=stIconMaterial], [role=img][translate=no]';
    const words = (chunk) => (chunk.match(/\p{Script=Han}/gu) ?? []).length / PER_WORD
        + chunk.split(/[\p{Script=Han}，。、：；！？（）“”《》]+/u)
            .filter((piece) => /\p{L}/u.test(piece)).length;
    const count = (node) => {
        if (node.nodeType !== Node.TEXT_NODE) {
            return [...(node.shadowRoot ? [node.shadowRoot] : []), ...node.childNodes]
                .reduce((sum, child) => sum + count(child), 0);
        }
        const all = node.textContent.split(/\s+/).reduce((sum, chunk) => sum + words(chunk), 0);
        return all && all * shares(node);
    };
    return Math.round(count(document.querySelector('[data-testid=stMain]')));
}"""
"""Words with a letter that are in sight, also inside components; not numbers, formulas, icons and
what is painted on a canvas. A text of several lines counts by the lines in sight. 1.7 Chinese
characters are one word: in the two text files, 32,200 of them say what 19,000 words do."""
TOO_WIDE = """() => {
    const main = document.querySelector('[data-testid=stMain]');
    return main.scrollWidth > main.clientWidth
        ? `${main.scrollWidth} pixels wide in ${main.clientWidth}` : '';
}"""
EMPTY_CHARTS = """charts => charts
    .filter(chart => !chart.data?.length || chart.getBoundingClientRect().width < 20)
    .map(chart => chart.getAttribute('aria-label') || 'a chart')"""
EMPTY_CANVASES = """canvases => canvases.filter(canvas => {
    // Lines between words appear with the pointer.
    if (!canvas.checkVisibility() || canvas.classList.contains('lines')) return false;
    if (!canvas.width || !canvas.height) return true;
    const blank = document.createElement('canvas');
    [blank.width, blank.height] = [canvas.width, canvas.height];
    return canvas.toDataURL() === blank.toDataURL();
}).map(canvas => canvas.getAttribute('aria-label') || canvas.className)"""


@dataclass(frozen=True)
class State:
    """What one visit looks at; its name is the picture's."""

    page: str
    model: str
    lang: str
    width: int
    theme: str

    @property
    def name(self) -> str:
        return f"{self.page}-{self.model}-{self.lang}-{self.width}-{self.theme}"

    @property
    def link(self) -> str:
        query = {"lang": self.lang, "model": self.model, "theme": self.theme}
        return f"{'' if self.page == HOME else self.page}?{urlencode(query)}"


def names_of_words() -> frozenset[str]:
    """The names of all words of the app, such as heads.title."""
    return frozenset(name for name in words("en") if "." in name)


def faults(page: Page, names: frozenset[str]) -> Iterator[str]:
    """What is wrong with the page that is drawn, in words."""
    if too_wide := page.evaluate(TOO_WIDE):
        yield too_wide
    shown = page.locator("[data-testid=stApp]").inner_text()
    for name in sorted(names & set(re.findall(r"[a-z_]+(?:\.[a-z_0-9]+)+", shown))):
        yield f"the name of words and not the words: {name}"
    for left in sorted(set(re.findall(r"\{[a-z_]+\}", shown))):
        yield f"a placeholder that nobody filled: {left}"
    for chart in page.locator(".js-plotly-plot").evaluate_all(EMPTY_CHARTS):
        yield f"empty: {chart}"
    for canvas in page.locator("canvas").evaluate_all(EMPTY_CANVASES):
        yield f"empty: canvas {canvas}"
    for error in page.get_by_test_id("stException").all():
        yield f"an exception: {error.inner_text()[:200]}"


@contextmanager
def stretched(page: Page) -> Iterator[None]:
    """The window as tall as its page: what is out of sight is drawn only then."""
    seen = page.viewport_size
    assert seen is not None
    whole: int = page.evaluate("() => document.querySelector('[data-testid=stMain]').scrollHeight")
    page.set_viewport_size({"width": seen["width"], "height": min(TALLEST, max(HEIGHT, whole))})
    page.wait_for_function(SETTLED, timeout=PATIENCE, polling=LOOKS)
    page.evaluate("() => new Promise(requestAnimationFrame)")
    yield
    page.set_viewport_size(seen)


def visits(
    browser: Browser, address: str, states: list[State], folder: Path
) -> Iterator[tuple[State, list[str]]]:
    names = names_of_words()
    for (width, theme), group in itertools.groupby(states, lambda each: (each.width, each.theme)):
        context = browser.new_context(
            viewport={"width": width, "height": HEIGHT},
            color_scheme="dark" if theme == "dark" else "light",
        )
        page = context.new_page()
        said: list[str] = []

        def hear(message: ConsoleMessage, said: list[str] = said) -> None:
            # Streamlit looks for its server below the page's path first ("masks/_stcore/…").
            if message.type == "error" and "_stcore" not in message.location.get("url", ""):
                said.append(f"console: {message.text}")

        page.on("console", hear)
        for state in group:
            said.clear()
            page.goto(f"{address}/{state.link}")
            page.wait_for_function(SETTLED, timeout=PATIENCE, polling=LOOKS)
            with stretched(page):
                wrong = list(faults(page, names))
            n_words = page.evaluate(WORDS)
            if width == max(WIDTHS) and state.page not in LISTS and n_words > MOST_WORDS:
                print(f"{state.name}: {n_words} words before scrolling, aim {MOST_WORDS}")
                page.screenshot(path=folder / f"{state.name}.png")
            yield state, [*said, *wrong]
        context.close()


def main() -> int:
    """Look at everything that is asked for; 1 where anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pages", default=",".join(page.name for page in PAGES))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--langs", default=",".join(LANGUAGES))
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)))
    parser.add_argument("--themes", default=",".join(THEMES))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    states = [
        State(page, model, lang, int(width), theme)
        for width, theme, model, page, lang in itertools.product(
            *(each.split(",") for each in (args.widths, args.themes, args.models, args.pages)),
            args.langs.split(","),
        )
    ]
    found = 0
    with running_app() as address, chromium() as browser:
        for state, wrong in visits(browser, address, states, args.folder):
            found += bool(wrong)
            for each in wrong:
                print(f"{state.name}: {each}", flush=True)
    print(f"{len(states)} states seen, {found} with something wrong")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
