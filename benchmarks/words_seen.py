"""The words of each page that are in sight in 1440 x 900 pixels, in both languages.

python -m benchmarks.words_seen [PAGE ...]
"""

import sys

from explorer.pages import HOME, PAGES
from explorer.text import LANGUAGES
from tests.browser.app import LOOKS, PATIENCE, SETTLED, chromium, running_app

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


def run(pages: list[str]) -> None:
    with running_app() as address, chromium() as browser:
        window = browser.new_page(viewport={"width": 1440, "height": 900})
        for page in pages:
            counts = []
            for lang in LANGUAGES:
                window.goto(f"{address}/{'' if page == HOME else page}?lang={lang}")
                window.wait_for_function(SETTLED, timeout=PATIENCE, polling=LOOKS)
                counts.append(f"{lang} {window.evaluate(WORDS):>4}")
            print(f"{page:<12}", *counts, flush=True)


if __name__ == "__main__":
    run(sys.argv[1:] or [page.name for page in PAGES])
