"""Circuits: behaviour of heads on synthetic sequences, and how two heads work together."""

import streamlit as st

from explorer.exhibits.view import View
from explorer.pages.circuits.choices import CircuitsChoices
from explorer.pages.circuits.composition import reading_each_other
from explorer.pages.circuits.induction import step_by_step
from explorer.pages.circuits.roles import by_behaviour
from explorer.pages.circuits.vocabulary import over_the_vocabulary
from explorer.problems import InputProblem
from explorer.ui.page import draw_page
from explorer.ui.parts import pick_part
from explorer.ui.problem import show_problem

DRAW = {
    "roles": by_behaviour,
    "circuit": step_by_step,
    "vocabulary": over_the_vocabulary,
    "composition": reading_each_other,
}


def render(view: View) -> None:
    """Draw the page."""
    draw_page(view, "circuits", _drawn)


def _drawn(view: View) -> None:
    """Draw the page below its introduction."""
    part = pick_part(view, "circuits", CircuitsChoices.parts)
    if view.sites_of("cross"):
        st.caption(view.t("circuits.translator"))
    elif view.trace.predicts != "next":
        st.caption(view.t("circuits.both_ways"))
    try:
        DRAW[part](view)
    except InputProblem as problem:
        show_problem(problem, view.lang)
