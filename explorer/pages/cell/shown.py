"""What several asides show: the weights of heads side by side, and a choice of dropout."""

from collections.abc import Sequence

import numpy as np
import streamlit as st

from explorer.analysis.cell.steps import Cell
from explorer.figures.heatmap import attention
from explorer.pages.cell.choices import CellChoices
from explorer.ui import controls, session
from explorer.ui.view import View


def weights(view: View, cell: Cell, shown: Sequence[tuple[str, str, np.ndarray]]) -> None:
    """One or two patterns [query, key] under this head's mask, each with a name and a title."""
    site = cell.site.name
    for (name, title, pattern), column in zip(shown, st.columns(2, gap="large"), strict=False):
        with column:
            st.caption(title)
            figure = attention(
                pattern,
                view.trace.mask(site)[cell.head],
                view.trace.query_tokens(site),
                view.trace.key_tokens(site),
                selected=cell.query,
                dark=view.dark,
                words=view.words("figures.heatmap"),
                **controls.place_titles(view),
            )
            controls.chart(figure, f"cell.{name}", alt=title)


def pick_dropout(view: View, key: str, width: int) -> float:
    """The share of weights that dropout zeroes, 0 to 0.9."""
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
