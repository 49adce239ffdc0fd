"""Nothing to see: one step back for each page, and the theme that a link asks for."""

import streamlit as st

from explorer.components.mount import view
from explorer.components.payload import pack


def frame(theme: str) -> None:
    """Mount it once per run, on every page; `theme` is "light", "dark", or "" for the visitor's."""
    with st.container(key="frame"):
        view("frame")(key="shell.frame", data=pack({"theme": theme}))
