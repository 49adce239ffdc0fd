"""Error messages in the user's language: what was wrong, and what is allowed."""

import streamlit as st

from explorer.exhibits.escape import escape
from explorer.exhibits.saying import message as message
from explorer.problems import InputProblem
from explorer.text import shorten, t


def show_problem(problem: InputProblem, lang: str) -> None:
    """Show the message in a plain box."""
    st.warning(message(problem, lang), icon=":material/info:")


def show_refused(name: str, value: str, lang: str) -> None:
    """Show that a value in the link was ignored."""
    words = t("shell.refused", lang=lang, name=name, value=escape(shorten(value, 40)))
    st.warning(words, icon=":material/link_off:")
