"""The choices of one session, mirrored in the address of the page.

Widgets do not own state. Before a widget is drawn it gets its value from the state, and when the
user changes it, it calls `change`. So state survives a change of page, and a link sets everything
at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import urlencode

import streamlit as st

from explorer.exhibits.block import escape
from explorer.exhibits.links import OF_VIEW, Links, State, is_gone
from explorer.exhibits.saying import message
from explorer.problems import InputProblem
from explorer.runs.edits import Edit
from explorer.text import LANGUAGES, shorten, t
from explorer.ui.trained import for_this_session

EditStep = Literal["undo", "redo"]
MOST_STEPS = 100
"""The most changes of the edits that can be undone."""
_STATE, _WRITTEN, _CHANGED, _REFUSED = "state", "link.written", "link.changed", "link.refused"
_LINKS, _PAGES, _FIRST = "shell.links", "shell.pages", "shell.first"
_RUNS, _OPENING, _DUE = "shell.runs", "shell.opening", "link.due"


def state() -> State:
    """The current choices. Call `start` first in every full run."""
    choices: State = st.session_state[_STATE]
    return choices


def links() -> Links:
    """The grammar of this app's links."""
    grammar: Links = st.session_state[_LINKS]
    return grammar


def start(links: Links, first: Callable[[str], State] = lambda lang: State(lang=lang)) -> bool:
    """Read the link when the session begins and after the browser's back button.

    `links` is the grammar for reading and writing all links of the session; `first` gives the
    initial state, by language, of a visit without a link.

    An address without parameters means a change of page (the menu drops them), not a reset. During
    fast clicks a run may still have the address before the last change, so a run caused by a widget
    is never treated as the back button.

    Returns whether the session begins with this run.
    """
    st.session_state[_LINKS], st.session_state[_FIRST] = links, first
    params = st.query_params.to_dict()
    moved = st.session_state.pop(_CHANGED, False)
    if _STATE not in st.session_state:
        _load(params, lang=_preferred_language())
        return True
    if moved:  # stays so if this run is interrupted before it writes the address
        st.session_state[_WRITTEN] = params
    elif params and params != st.session_state.get(_WRITTEN):
        _load(params, lang=state().lang)
    return False


def _load(params: Mapping[str, str], lang: str) -> None:
    chosen, refused = links().read({"lang": lang, **params})
    named = {name: for_this_session(links().chosen(chosen, name)) for name in links().models}
    chosen = links().change(chosen, **named)
    if not params.keys() - OF_VIEW:
        chosen = replace(chosen, model=_first(chosen.lang).model)
    if _STATE in st.session_state:
        chosen = links().keep(chosen, state())
    st.session_state[_STATE] = chosen if "lang" not in dict(refused) else replace(chosen, lang=lang)
    st.session_state[_REFUSED] = refused


def _first(lang: str) -> State:
    begun: State = st.session_state[_FIRST](lang)
    return begun


def is_untouched() -> bool:
    """Whether the user has chosen nothing yet."""
    return state() == _first(state().lang)


def change_language(lang: str) -> None:
    """Switch the language; an untouched session also gets the initial state of that language.

    An unknown language is ignored, as the browser may send anything.
    """
    if lang in LANGUAGES:
        _choose(_first(lang) if is_untouched() else links().change(state(), lang=lang))


def change(**fields: Any) -> None:
    """Change fields of the state; the address is updated after the page was drawn with them."""
    _choose(links().change(state(), **fields))


def edits_of(step: EditStep) -> list[tuple[Edit, ...]]:
    """The edits that can be restored by this step, the next ones last."""
    edits: list[tuple[Edit, ...]] = st.session_state.setdefault(f"edits.{step}", [])
    return edits


def change_edits(edits: tuple[Edit, ...]) -> None:
    """Apply these edits; the previous ones can be restored."""
    edits_of("undo").append(state().edits)
    del edits_of("undo")[:-MOST_STEPS]
    edits_of("redo").clear()
    change(edits=edits)


def restore_edits(step: EditStep) -> None:
    """Undo or redo a change of the edits, if there is one."""
    if edits_of(step):
        edits_of("redo" if step == "undo" else "undo").append(state().edits)
        change(edits=edits_of(step).pop())


def take_link(chosen: Mapping[str, str]) -> None:
    """Make choices, each given as in a link; invalid ones are dropped and reported."""
    _load({**links().write(state()), **chosen}, lang=state().lang)
    st.session_state[_CHANGED] = True


def change_site(**fields: Any) -> None:
    """Change the model or kind of attention, and reset the choices that refer to the previous
    one."""
    _choose(links().change(links().elsewhere(state()), **fields))


def _choose(chosen: State) -> None:
    st.session_state[_STATE] = chosen
    st.session_state[_CHANGED] = True
    st.session_state[_REFUSED] = ()


def count_run() -> None:
    """Count a press of Run, so that the text runs again even if it did not change."""
    st.session_state[_RUNS] = runs() + 1


def runs() -> int:
    """How often Run was pressed in this session."""
    pressed: int = st.session_state.get(_RUNS, 0)
    return pressed


def run_page() -> None:
    """Run the whole page with the current choices. The address of the request that led here may
    precede them, so it is not taken for the back button."""
    st.session_state[_CHANGED] = True
    st.rerun(scope="app")


def write_link() -> None:
    """Write the current choices into the address."""
    params = links().write(state())
    if st.query_params.to_dict() != params:
        st.query_params.from_dict(params)
    st.session_state[_WRITTEN] = params
    st.session_state.pop(_CHANGED, None)


def write_link_later(due: bool) -> None:
    """Set whether `write_due_link`, called after the picture, writes the link.

    A browser that updates its address draws nothing for 20 ms: the text comes first.
    """
    st.session_state[_DUE] = due


def write_due_link() -> None:
    """Write the current choices into the address if `write_link_later` has requested it."""
    if st.session_state.pop(_DUE, False):
        write_link()


def keep_pages(pages: Mapping[str, Any], opening: str) -> None:
    """Store the pages of the menu, by name, for `visit`; `opening` is the page at the root."""
    st.session_state[_PAGES], st.session_state[_OPENING] = dict(pages), opening


def pages() -> Mapping[str, Any]:
    """The pages of the menu by name; empty if a page runs alone, as in tests."""
    menu: Mapping[str, Any] = st.session_state.get(_PAGES, {})
    return menu


def opening_page() -> str:
    """The page at the root address; "" if a page runs alone, as in tests."""
    page: str = st.session_state.get(_OPENING, "")
    return page


def address(page: str, chosen: State) -> str:
    """The address of a page with these choices, relative to the app; "" if the menu lacks it."""
    if page not in pages():
        return ""
    # The opening page is only reachable at the root, not by its name.
    path = "./" if page == opening_page() else page
    return f"{path}?{urlencode(links().write(chosen))}"


def visit(name: str) -> None:
    """Go to another page with the current choices; ends the run."""
    params = links().write(state())
    # Pass the parameters to the switch: writing the address later would add a history entry.
    st.session_state[_WRITTEN] = params
    st.switch_page(st.session_state[_PAGES][name], query_params=params)


def _preferred_language() -> str:
    """The first visit's language: Chinese for a browser that asks for it, else English."""
    wanted = (st.context.locale or "").split("-")[0].lower()
    return wanted if wanted in LANGUAGES else LANGUAGES[0]


def show_problem(problem: InputProblem, lang: str) -> None:
    """Show the message in a plain box."""
    st.warning(message(problem, lang), icon=":material/info:")


def show_refused(lang: str) -> None:
    """Show which values of the link were ignored, in one line for all views that are gone, until
    the user changes anything."""
    gone: list[tuple[str, str]] = []
    invalid: list[tuple[str, str]] = []
    for name, value in st.session_state.get(_REFUSED, ()):
        (gone if is_gone(name, value) else invalid).append((name, value))
    if gone:
        st.info(t("shell.gone", lang=lang), icon=":material/link_off:")
    for name, value in invalid:
        words = t("shell.refused", lang=lang, name=name, value=escape(shorten(value, 40)))
        st.warning(words, icon=":material/link_off:")
