"""A printable sheet: its steps with pictures, questions and checkboxes."""

import streamlit as st

from explorer.analysis.path import Missing
from explorer.exhibits.view import View
from explorer.pages.path.asked import asked
from explorer.pages.path.choices import PathChoices
from explorer.pages.path.course import STEPS, chapter_of
from explorer.pages.path.lesson import lead
from explorer.pages.path.views import steps_of, title_of
from explorer.ui import controls, session

LETTERS = "ABCD"


def printed(view: View, current: str) -> None:
    """The steps of the sheet; without one, of the open chapter."""
    made = view.choices(PathChoices)
    named = steps_of(view)
    if not made.sheet:
        named = tuple(step for step in named if chapter_of(step) == chapter_of(current))
    with st.container(key="path-noprint"):
        st.markdown(view.t("path.printed_lead"))
        st.session_state["path.solutions"] = made.solutions
        st.toggle(
            view.t("path.solutions"),
            key="path.solutions",
            on_change=lambda: session.change(solutions=st.session_state["path.solutions"]),
        )
    st.markdown(view.t("path.name_line"))
    controls.sentence_line(view)
    solutions = []
    with st.spinner(view.t("shell.working")):
        for step in named:
            solutions.append(f"{title_of(view, step)}: {_one(view, step)}")
    if made.solutions:
        st.markdown(f"**{view.t('path.solved')}**")
        st.markdown("\n".join(f"- {line}" for line in solutions))


def _one(view: View, name: str) -> str:
    """Draw one step for print; return its solution."""
    with st.container(key=f"path-paper-{name}"):
        st.markdown(f"**{title_of(view, name)}**")
        st.markdown(lead(view, name))
        found = asked(view, STEPS[name])
        if isinstance(found, Missing):
            st.markdown(view.t(f"path.missing.{found.why}"))
            return "–"
        found.picture(False)
        st.markdown(f"**{view.t(f'path.steps.{name}.ask', **found.values)}**")
        boxes = zip(LETTERS, found.question.options, strict=False)
        st.markdown("  \n".join(f"☐ {letter}. {option}" for letter, option in boxes))
    right = found.question.right
    return f"{LETTERS[right]}. {found.question.answer}"
