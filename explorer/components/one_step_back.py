"""Nothing to see: lets the browser's back button leave a page in one step."""

import streamlit as st

from explorer.components.mount import view


def one_step_back() -> None:
    """Mount it once per run, on every page; see one_step_back.js for the reason."""
    with st.container(key="one-step-back"):
        view("one_step_back")(key="shell.one_step_back")
