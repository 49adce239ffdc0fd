"""A link to the guided tour: from a page to its chapter."""

import streamlit as st

from explorer.exhibits.path.chapters import CHAPTER_OF
from explorer.exhibits.shared import ScreenChoices
from explorer.text import t
from explorer.ui import session


def back_to_path(page: str) -> None:
    """A small button to the page's chapter; none in presentation mode, or for pages without one."""
    chapter, state = CHAPTER_OF.get(page), session.state()
    if chapter is None or state.of(ScreenChoices).beamer:
        return
    named = t(f"path.groups.{chapter}", lang=state.lang)
    label = t("path.chapter_of", lang=state.lang, chapter=named)
    if st.button(label, key="path.way", type="tertiary", icon=":material/route:"):
        # Imported on click: the course imports the analyses of all its steps.
        from explorer.exhibits.path.course import CHAPTERS

        session.change(lesson=CHAPTERS[chapter][0].id, part="")
        session.visit("path")
