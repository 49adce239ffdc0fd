"""Asides about a model: implementation variants, its output matrix, its training."""

from collections.abc import Callable, Mapping

import streamlit as st

from explorer.exhibits.view import View
from explorer.pages.machine.choices import ASIDES, MachineChoices
from explorer.pages.machine.differences import differences
from explorer.pages.machine.history import history
from explorer.pages.machine.tying import one_matrix
from explorer.ui import session


def asides(view: View) -> None:
    """The menu of asides, and the chosen one."""
    st.subheader(view.t("machine.further"), anchor=False)
    chosen = view.choices(MachineChoices).further
    st.session_state["machine.further"] = chosen or None
    st.pills(
        view.t("machine.further"),
        ASIDES,
        format_func=lambda name: view.t(f"machine.asides.{name}"),
        key="machine.further",
        label_visibility="collapsed",
        on_change=lambda: session.change(further=st.session_state["machine.further"] or ""),
    )
    drawn: Mapping[str, Callable[[View], None]] = {
        "differences": differences,
        "tying": one_matrix,
        "history": history,
    }
    if chosen:
        drawn[chosen](view)
