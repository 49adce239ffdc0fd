"""Error messages in the user's language: what was wrong, and what is allowed."""

import streamlit as st

from explorer.exhibits.escape import escape
from explorer.problems import InputProblem, Value
from explorer.text import refusal, shorten, t
from models.refusals import Refusal


def message(problem: InputProblem, lang: str) -> str:
    """The text of an input problem, as Markdown; user input in it is escaped."""
    values = {name: _shown(value, lang) for name, value in problem.values.items()}
    if problem.key == "bad_number":
        # The names of settings have words of their own.
        values["name"] = t(f"settings.{problem.values['name']}", lang=lang)
    return t(f"problems.{problem.key}", lang=lang, **values)


def _shown(value: Value, lang: str) -> str:
    if isinstance(value, Refusal):
        return escape(refusal(value, lang=lang))
    return escape(shorten(value, 120)) if isinstance(value, str) else f"{value:,}"


def show_problem(problem: InputProblem, lang: str) -> None:
    """Show the message in a plain box."""
    st.warning(message(problem, lang), icon=":material/info:")


def show_refused(name: str, value: str, lang: str) -> None:
    """Show that a value in the link was ignored."""
    words = t("shell.refused", lang=lang, name=name, value=escape(shorten(value, 40)))
    st.warning(words, icon=":material/link_off:")
