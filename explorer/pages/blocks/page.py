"""Blocks: norms, their placement, and the feed-forward network."""

import streamlit as st

from explorer.exhibits.shared import ScreenChoices
from explorer.exhibits.view import View
from explorer.numbers import number
from explorer.pages.blocks.activations import curves_of
from explorer.pages.blocks.choices import BlocksChoices
from explorer.pages.blocks.hidden import hidden_units
from explorer.pages.blocks.norms import norms
from explorer.pages.blocks.residual import placements
from explorer.ui.page import draw_page
from explorer.ui.parts import pick_part

DRAW = {
    "norms": norms,
    "residual": placements,
    "activations": curves_of,
    "hidden": hidden_units,
}


def render(view: View) -> None:
    """Draw the page."""
    draw_page(view, "blocks", _drawn)


def _drawn(view: View) -> None:
    """Draw the page below its introduction."""
    part = pick_part(view, "blocks", BlocksChoices.parts)
    config = view.loaded.config
    if not view.choices(ScreenChoices).beamer:
        st.caption(
            view.t(
                "blocks.model",
                norm=view.t(f"blocks.{config.norm}"),
                placement=view.t(f"figures.residual.{config.norm_placement}"),
                ffn=view.t(f"blocks.ffn_{config.ffn}"),
                eps=number(config.norm_eps),
            )
        )
    DRAW[part](view)
