"""A narrow screen's top bar, and what only the browser can do for the frame round a page."""

from collections.abc import Callable, Mapping, Sequence

from explorer.components.mount import sent, view
from explorer.components.payload import Words, check_words, pack

WORDS = ("page", "more", "sentence", "run")
_KEY = "shell.frame"


def frame(
    theme: str,
    beamer: bool,
    pages: Mapping[str, str],
    current: str,
    sentence: str,
    on_sentence: Callable[[str], None],
    typed: Sequence[object],
    chosen: Sequence[object],
    words: Words,
) -> str | None:
    """Mount it once per run, on every page; the page that was just picked in its bar, else None.

    `theme` is "light", "dark", or "" for the visitor's; `beamer`, whether it is for a class, where
    the sidebar starts closed. On a narrow screen, where Streamlit puts the menu into the sidebar, a
    bar names the `current` page, leads to all `pages` (name: title) and opens the sidebar; below it
    stands the `sentence` with a button to run another, which calls `on_sentence` before the script
    runs again; a class does without. The sidebar covers the page there; it closes when something
    of `chosen` has changed, or of `typed` unless the visitor is already at the next field.
    Raises ValueError for other words than `WORDS`.
    """
    import streamlit as st

    head = {
        "theme": theme,
        "beamer": beamer,
        "pages": [[name, title] for name, title in pages.items()],
        "current": current,
        "sentence": sentence,
        "typed": [str(each) for each in typed],
        "chosen": [str(each) for each in chosen],
        "words": check_words(WORDS, words),
    }
    with st.container(key="frame"):
        view("frame")(
            key=_KEY,
            data=pack(head),
            on_page_change=lambda: None,
            on_sentence_change=lambda: _take(on_sentence),
        )
    picked = sent(_KEY, "page")
    return picked if picked in pages and picked != current else None


def _take(on_sentence: Callable[[str], None]) -> None:
    given = sent(_KEY, "sentence")
    if isinstance(given, str):  # whoever speaks the protocol may send anything
        on_sentence(given)
