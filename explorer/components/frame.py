"""The top bar on narrow screens, and the parts of the page frame that need the browser."""

from collections.abc import Callable, Mapping, Sequence

from explorer.components.mount import sent, view
from explorer.components.payload import Words, pack

_KEY = "shell.frame"

Menu = Sequence[tuple[str, Sequence[tuple[str, str, str]]]]
"""Headings with their pages: address, title, and the reason why it is dimmed, "" if it is not."""


def frame(
    lang: str,
    theme: str,
    beamer: bool,
    menu: Menu,
    current: str,
    sentence: str,
    on_sentence: Callable[[str], None],
    typed: Sequence[object],
    chosen: Sequence[object],
    words: Words,
    origins: Sequence[str] | None = None,
    on_message: Callable[[Mapping[str, object]], None] = lambda _: None,
) -> str | None:
    """Return the page just picked in the bar, else None. Mount once per run, on every page.

    `lang` is the language of the page; `theme` is "light", "dark", or "" for the browser's;
    `beamer` is the classroom mode, in which the sidebar starts closed. On a narrow screen
    Streamlit puts the menu into the sidebar, so a bar names the `current` page, links to all of
    the `menu` and opens the sidebar. Below it is the `sentence` with a button to run another
    one, which calls `on_sentence` before the next run (not in classroom mode). The sidebar
    covers the page there. It closes when a value in `chosen` changes, or one in `typed` unless
    the focus is already in the next field. In an embedded app, pages of `origins` may exchange
    messages with it, and `on_message` gets theirs, unchecked.
    """
    import streamlit as st

    head = {
        "lang": lang,
        "theme": theme,
        "beamer": beamer,
        "menu": [[heading, [list(view) for view in views]] for heading, views in menu],
        "current": current,
        "sentence": sentence,
        "typed": [str(setting) for setting in typed],
        "chosen": [str(setting) for setting in chosen],
        "origins": None if origins is None else list(origins),
        "words": dict(words),
    }
    with st.container(key="frame"):
        view("frame")(
            key=_KEY,
            data=pack(head),
            on_page_change=lambda: None,
            on_sentence_change=lambda: _take(on_sentence),
            on_message_change=lambda: _hear(on_message),
            on_theme_change=lambda: None,
        )
    picked = sent(_KEY, "page")
    names = {name for _, views in menu for name, _, _ in views}
    return picked if isinstance(picked, str) and picked in names and picked != current else None


def pulse(key: str, seconds: float) -> None:
    """Rerun the surrounding fragment once after so many seconds.

    `st.fragment(run_every=…)` stops only with a run of the whole page, which would discard text
    that is typed but not yet sent.
    """
    import streamlit as st

    turn = st.session_state[f"{key}.turn"] = st.session_state.get(f"{key}.turn", 0) + 1
    data = pack({"turn": turn, "seconds": seconds})
    view("pulse")(key=key, data=data, on_due_change=lambda: None)


def is_due(key: str) -> bool:
    """Whether the pulse with this key started this run. Call it before the pulse is drawn again."""
    return sent(key, "due") is not None


def _take(on_sentence: Callable[[str], None]) -> None:
    sentence = sent(_KEY, "sentence")
    if isinstance(sentence, str):  # untrusted: a client may send anything
        on_sentence(sentence)


def _hear(on_message: Callable[[Mapping[str, object]], None]) -> None:
    message = sent(_KEY, "message")
    if isinstance(message, Mapping):
        on_message(message)
