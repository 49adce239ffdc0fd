"""What one visitor chose, kept for the session and mirrored in the address of the page.

Widgets do not own state. Before a widget is drawn it is given the value of the state, and when the
visitor moves it, it calls `change`; so pages may come and go, and a link fills everything at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

import streamlit as st

from explorer.exhibits.links import Links, State
from explorer.text import LANGUAGES
from explorer.ui.uploads import for_this_session

_STATE, _WRITTEN, _CHANGED, _REFUSED = "state", "link.written", "link.changed", "link.refused"
_LINKS, _PAGES, _FIRST = "shell.links", "shell.pages", "shell.first"
_RUNS, _OPENING, _DUE = "shell.runs", "shell.opening", "link.due"


def state() -> State:
    """What is chosen now. Call `start` first in every full run."""
    found: State = st.session_state[_STATE]
    return found


def links() -> Links:
    """The grammar of this app's links."""
    found: Links = st.session_state[_LINKS]
    return found


def start(links: Links, first: Callable[[str], State] = lambda lang: State(lang=lang)) -> bool:
    """Read the link, once when the session begins and again after the browser's back button.

    `links` is the grammar that this and all links of the session are read and written in; `first`
    is what a visitor who brings no link begins with, in a language.

    An address without parameters is a change of page (the menu drops them), not a wish. And while
    a visitor clicks fast, a run may still carry the address before the last change: a run that a
    widget caused is therefore never taken for the back button.

    Returns whether the session begins with this run.
    """
    st.session_state[_LINKS], st.session_state[_FIRST] = links, first
    params = st.query_params.to_dict()
    moved = st.session_state.pop(_CHANGED, False)
    if _STATE not in st.session_state:
        _load(params, lang=_preferred_language())
        return True
    if params and params != st.session_state.get(_WRITTEN) and not moved:
        _load(params, lang=state().lang)
    return False


def _load(params: Mapping[str, str], lang: str) -> None:
    chosen, refused = links().read({"lang": lang, **params})
    chosen = links().change(chosen, model=for_this_session(chosen.model))
    if not params.keys() - {"lang"}:  # no link to anything
        chosen = _first(chosen.lang)
    st.session_state[_STATE] = chosen if "lang" not in dict(refused) else replace(chosen, lang=lang)
    st.session_state[_REFUSED] = refused


def refused() -> tuple[tuple[str, str], ...]:
    """What of the link could not be used, as (name, value), until the visitor changes anything."""
    found: tuple[tuple[str, str], ...] = st.session_state.get(_REFUSED, ())
    return found


def _first(lang: str) -> State:
    begun: State = st.session_state[_FIRST](lang)
    return begun


def is_untouched() -> bool:
    """Whether the visitor has chosen nothing yet."""
    return state() == _first(state().lang)


def change_language(lang: str) -> None:
    """Read everything in another language; who has chosen nothing yet begins as its readers do."""
    _choose(_first(lang) if is_untouched() else links().change(state(), lang=lang))


def change(**fields: Any) -> None:
    """Choose something, by its name; the address follows once a picture of it could be drawn."""
    _choose(links().change(state(), **fields))


def change_site(**fields: Any) -> None:
    """Choose another model or kind of attention, and forget what pointed into the one before."""
    _choose(links().change(links().elsewhere(state()), **fields))


def _choose(chosen: State) -> None:
    st.session_state[_STATE] = chosen
    st.session_state[_CHANGED] = True
    st.session_state[_REFUSED] = ()


def count_run() -> None:
    """The visitor pressed Run: what was typed is run by that press, even where nothing changed."""
    st.session_state[_RUNS] = runs() + 1


def runs() -> int:
    """How often Run was pressed in this session."""
    pressed: int = st.session_state.get(_RUNS, 0)
    return pressed


def write_link() -> None:
    """Make the address a link to what is chosen."""
    params = links().write(state())
    if st.query_params.to_dict() != params:
        st.query_params.from_dict(params)
    st.session_state[_WRITTEN] = params
    st.session_state.pop(_CHANGED, None)


def write_link_later(due: bool) -> None:
    """Whether `write_due_link` shall write the link: it stands behind the picture.

    A browser that takes over a new address draws nothing for 20 ms: the words come first.
    """
    st.session_state[_DUE] = due


def write_due_link() -> None:
    """Make the address a link to what is chosen, if `write_link_later` said so since the last."""
    if st.session_state.pop(_DUE, False):
        write_link()


def keep_pages(pages: Mapping[str, Any], opening: str) -> None:
    """Remember the pages of the menu, by name, for `visit`; `opening` is that of a bare address."""
    st.session_state[_PAGES], st.session_state[_OPENING] = dict(pages), opening


def page_names() -> tuple[str, ...]:
    """The pages of the menu; none where a page runs alone, as in tests."""
    return tuple(st.session_state.get(_PAGES, ()))


def opening_page() -> str:
    """The page of an address without a name; "" where a page runs alone, as in tests."""
    found: str = st.session_state.get(_OPENING, "")
    return found


def visit(name: str) -> None:
    """Go to another page with what is chosen; the run ends here."""
    params = links().write(state())
    # Given to the switch: an address written after it is one more step for the back button.
    st.session_state[_WRITTEN] = params
    st.switch_page(st.session_state[_PAGES][name], query_params=params)


def follow(link: str) -> None:
    """Go where a link of this app leads, without leaving the session; the run ends here."""
    path, _, query = link.partition("?")
    _load(dict(parse_qsl(query, keep_blank_values=True)), lang=state().lang)
    st.session_state[_CHANGED] = True
    visit(path if path in page_names() else opening_page())


def is_dark() -> bool:
    """Whether the visitor looks at the dark theme."""
    return st.context.theme.type == "dark"


def _preferred_language() -> str:
    """The first visit's language: Chinese for a browser that asks for it, else English."""
    wanted = (st.context.locale or "").split("-")[0].lower()
    return wanted if wanted in LANGUAGES else LANGUAGES[0]
