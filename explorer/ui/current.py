"""The view of this run; if the input is refused, the last valid one below the message."""

from contextlib import suppress
from dataclasses import replace

import streamlit as st

from explorer.engine import cache
from explorer.exhibits.block import escape
from explorer.exhibits.links import State
from explorer.exhibits.view import View, Viewer, build, key_for, without_text
from explorer.library import OWN_TEXTS
from explorer.problems import InputProblem
from explorer.runs.sentences import sentences_of
from explorer.text import has, shorten, t
from explorer.ui import running, session
from explorer.ui.session import show_problem, show_refused

_GOOD, _STANDING_IN, _PADS = "view.good", "view.standing_in", "view.usual_pads"
_AROUND = "view.around"
"""The language and the model that the menu and the sidebar show; None if they must be redrawn."""


def first_view(usual_pads: int = 0) -> View:
    """The view of a full run, with a message above it for all refused input. `usual_pads` is the
    page's default number of PADs.

    Raises InputProblem if there is nothing to show.
    """
    state = session.state()
    session.write_link_later(False)
    show_refused(state.lang)
    st.session_state[_STANDING_IN], st.session_state[_PADS] = False, usual_pads
    st.session_state[_AROUND] = state.lang, state.model
    with st.spinner(app_text("shell.working")):
        try:
            return _accept(build(state, *_screen()))
        except InputProblem as problem:
            refused = problem
    st.session_state[_STANDING_IN] = True
    stand_in = _standing_in(state)
    show_problem(refused, state.lang)
    first = next(iter(sentences_of(state.text or "")), "")
    if refused.key in ("too_long_chars", "too_many_tokens") and first != state.text:
        st.button(
            t("shell.first_sentence", lang=state.lang),
            key="shell.first_sentence",
            on_click=session.change,
            kwargs={"text": first, "target": None, "row": None, "step": None},
        )
    good: View | None = st.session_state.get(_GOOD)
    if good is None:
        st.caption(t("shell.first_instead", lang=state.lang))
    else:
        st.caption(t("shell.last_good", lang=state.lang, text=escape(shorten(good.text))))
    return stand_in


def app_text(key: str, /, *names: str, **values: object) -> str:
    """The text at `key` in the user's language, outside a view: the chosen model's own, if any."""
    state, key = session.state(), ".".join((key, *names))
    if state.model and any(has(table, key, lang=state.lang) for table in OWN_TEXTS):
        with suppress(InputProblem):  # the page shows the error
            key = key_for(cache.open_model(state.model), key, state.lang)
    return t(key, lang=state.lang, **values)


def latest(view: View) -> View:
    """The view inside a fragment, which reruns without the page: `view` with the latest choices.

    The whole page reruns if the language or the model has changed, or `redraw_around` asks for it.
    """
    state = session.state()
    if (state.lang, state.model) != st.session_state.get(_AROUND, (state.lang, state.model)):
        session.run_page()
    session.write_link_later(False)
    standing_in = st.session_state.get(_STANDING_IN)
    if state == view.state:
        # A reverted change must be removed from the address too.
        session.write_link_later(not standing_in)
        return view
    if standing_in:
        try:
            build(state, *_screen())
        except InputProblem:
            return _standing_in(state)
        session.run_page()  # the text was mended inside the fragment: the message must go too
    try:
        return _accept(build(state, *_screen()))
    except InputProblem as problem:
        show_problem(problem, state.lang)
        return view


def redraw_around() -> None:
    """Let the next run of a fragment redraw the whole page, whose sidebar shows the sentence."""
    st.session_state[_AROUND] = None


def _screen() -> tuple[bool, int, Viewer]:
    """Whether it is dark, the page's default number of PADs, and the viewer."""
    return st.context.theme.type == "dark", st.session_state[_PADS], running.viewer()


def _accept(view: View) -> View:
    for note in view.notes:
        show_problem(note, view.lang)
    st.session_state[_GOOD] = view
    session.write_link_later(True)
    return view


def _standing_in(state: State) -> View:
    """The latest choices on the last valid sentence, else on the default sentence.

    Raises InputProblem if no model opens.
    """
    good: View | None = st.session_state.get(_GOOD)
    if good is None:
        tried = without_text(state)
        try:
            return build(tried, *_screen())
        except InputProblem:
            return build(replace(tried, model=""), *_screen())
    kept = replace(state, model=good.loaded.name, text=good.text, target=good.target)
    try:
        return build(kept, *_screen())
    except InputProblem:
        return good
