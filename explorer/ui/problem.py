"""Refusals, said in the visitor's language: what was wrong, and what would be right."""

import streamlit as st

from explorer.exhibits.escape import escape
from explorer.problems import InputProblem, Value
from explorer.text import refusal, shorten, t
from models.refusals import Refusal


def message(problem: InputProblem, lang: str) -> str:
    """The words for a refusal, as Markdown; what the visitor typed in them is escaped."""
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
    """The refusal in a quiet box."""
    st.warning(message(problem, lang), icon=":material/info:")


def show_refused(name: str, value: str, lang: str) -> None:
    """Say that a link's value was not used."""
    words = t("shell.refused", lang=lang, name=name, value=escape(shorten(value, 40)))
    st.warning(words, icon=":material/link_off:")
