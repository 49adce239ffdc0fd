"""The line in the head of every other page that leads to its chapter of the path."""

import streamlit as st

from explorer.exhibits.shared import ScreenChoices
from explorer.pages.path.chapters import CHAPTER_OF, NAMES
from explorer.text import t
from explorer.ui import session


def back_to_path(page: str, *, is_home: bool) -> None:
    """A small button; on the page that a first visit opens, it is for those who are new.

    Nothing in front of a class, and on pages of no chapter.
    """
    chapter, state = CHAPTER_OF.get(page), session.state()
    if chapter is None or state.of(ScreenChoices).beamer:
        return
    label = t("path.new_here", lang=state.lang)
    if not (is_home and session.is_untouched()):
        named = t(f"path.groups.{chapter}", lang=state.lang)
        number = NAMES.index(chapter) + 1
        label = t("path.chapter_of", lang=state.lang, number=number, chapter=named)
    if st.button(label, key="path.way", type="tertiary", icon=":material/route:"):
        # The course imports the analyses of all its steps: only who goes there waits for them.
        from explorer.pages.path.course import CHAPTERS

        session.change(lesson=CHAPTERS[chapter][0].id, part="")
        session.visit("path")
