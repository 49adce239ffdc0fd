"""Shared by asides: the weights of heads side by side, and the dropout control."""

from collections.abc import Sequence

import numpy as np
import streamlit as st

from explorer.analysis.cell.steps import Cell
from explorer.exhibits.view import View
from explorer.figures.heatmap import weights as weights_of
from explorer.pages.cell.choices import CellChoices
from explorer.ui import controls, session


def weights(view: View, cell: Cell, name: str, shown: Sequence[tuple[str, np.ndarray]]) -> None:
    """Patterns [query, key] under this head's mask side by side, each with its title."""
    site = cell.site.name
    matrices = [
        (
            title,
            weights_of(
                pattern,
                view.trace.mask(site)[cell.head],
                view.trace.query_tokens(site),
                view.trace.key_tokens(site),
                selected=cell.query,
                words=view.words("figures.heatmap"),
                **controls.place_titles(view),
            ),
        )
        for title, pattern in shown
    ]
    controls.heatmaps(view, matrices, f"cell.{name}")


def pick_dropout(view: View, key: str, width: int) -> float:
    """The dropout control: the share of zeroed weights, 0 to 0.9."""
    percents = st.session_state[key] = view.choices(CellChoices).drop
    st.slider(
        view.t("cell.drop"),
        0,
        90,
        key=key,
        step=5,
        format="%d %%",
        width=width,
        on_change=lambda: session.change(drop=st.session_state[key]),
    )
    return percents / 100
