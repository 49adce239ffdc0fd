"""Alignment: word alignment from cross-attention."""

import streamlit as st

from explorer.exhibits.view import View
from explorer.pages.alignment.choices import AlignmentChoices
from explorer.pages.alignment.file import whole_file
from explorer.pages.alignment.instead import without_cross
from explorer.pages.alignment.matrices import which_matrix
from explorer.pages.alignment.opened import opened
from explorer.pages.alignment.takeaway import take_away
from explorer.pages.alignment.without import without_heads
from explorer.pages.alignment.words import aligned_words
from explorer.problems import InputProblem
from explorer.ui.page import draw_page
from explorer.ui.parts import pick_part
from explorer.ui.problem import show_problem


def render(view: View) -> None:
    """Draw the page."""
    draw_page(view, "alignment", _drawn, take_away)


def _drawn(view: View) -> None:
    """Draw the page below its introduction."""
    if not view.sites_of("cross"):
        without_cross(view)
        return
    if view.trace.predicts is None:
        st.info(view.t("alignment.no_output"), icon=":material/info:")
        return
    part = pick_part(view, "alignment", AlignmentChoices.parts)
    try:
        choice = opened(view)
        if choice is None:
            return
        if part == "words":
            aligned_words(choice)
        elif part == "matrices":
            which_matrix(choice)
        elif part == "without":
            without_heads(choice)
        else:
            whole_file(choice)
    except InputProblem as problem:
        show_problem(problem, view.lang)
