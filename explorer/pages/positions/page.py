"""Positions: how a model encodes word order, and what happens without it."""

import streamlit as st

from explorer.exhibits.shared import ScreenChoices
from explorer.exhibits.view import View
from explorer.pages.positions.choices import PositionsChoices
from explorer.pages.positions.head import this_head
from explorer.pages.positions.learned import learned_vectors
from explorer.pages.positions.length import longer
from explorer.pages.positions.order import shuffled
from explorer.pages.positions.rotary import arrows_of_a_head
from explorer.pages.positions.sums import token_and_position
from explorer.pages.positions.table import sines
from explorer.ui import controls
from explorer.ui.page import draw_page
from explorer.ui.parts import pick_part

DRAW = {
    "order": shuffled,
    "head": this_head,
    "sum": token_and_position,
    "table": sines,
    "learned": learned_vectors,
    "rotary": arrows_of_a_head,
    "length": longer,
}


def render(view: View) -> None:
    """Draw the page."""
    draw_page(view, "positions", _drawn)


def _drawn(view: View) -> None:
    """Draw the page below its introduction."""
    part = pick_part(view, "positions", PositionsChoices.parts)
    config = view.loaded.config
    own = {"width": config.d_model, "limit": config.n_ctx}
    if not view.choices(ScreenChoices).beamer:
        st.caption(view.t(f"positions.model_{config.positions}", **own))
    if part not in ("table", "learned"):  # these two do not depend on the sentence
        controls.sentence_line(view)
        controls.edits_bar(view, "positions.reset")
    DRAW[part](view)
