"""Error messages in the user's language: what was wrong, and what is allowed."""

from collections.abc import Iterable

import streamlit as st

from explorer.exhibits.escape import escape
from explorer.exhibits.links import is_gone
from explorer.exhibits.saying import message as message
from explorer.problems import InputProblem
from explorer.text import shorten, t


def show_problem(problem: InputProblem, lang: str) -> None:
    """Show the message in a plain box."""
    st.warning(message(problem, lang), icon=":material/info:")


def show_refused(pairs: Iterable[tuple[str, str]], lang: str) -> None:
    """Show which values of the link were ignored, in one line for all views that are gone."""
    gone: list[tuple[str, str]] = []
    invalid: list[tuple[str, str]] = []
    for name, value in pairs:
        (gone if is_gone(name, value) else invalid).append((name, value))
    if gone:
        st.info(t("shell.gone", lang=lang), icon=":material/link_off:")
    for name, value in invalid:
        words = t("shell.refused", lang=lang, name=name, value=escape(shorten(value, 40)))
        st.warning(words, icon=":material/link_off:")
