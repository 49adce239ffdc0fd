"""Pages of several parts: which part, and which of the two token streams it is about."""

import streamlit as st

from explorer.ui import session
from explorer.ui.places import PARTS
from explorer.ui.view import View
from models.hooks import Stream


def pick_part(view: View, page: str) -> str:
    """Which part of a page that has several; the first where the state names none of its own."""
    parts = PARTS[page]
    key = f"{page}.part"
    part = view.state.part if view.state.part in parts else parts[0]
    st.session_state[key] = part
    st.segmented_control(
        view.t(f"{page}.part"),
        parts,
        format_func=lambda name: view.t(f"{page}.parts.{name}"),
        required=True,
        key=key,
        label_visibility="collapsed",
        on_change=lambda: session.change(part=st.session_state[key]),
    )
    return part


def pick_stream(view: View, key: str, streams: tuple[Stream, ...] | None = None) -> Stream:
    """Which of the two token streams is meant; there is nothing to pick where there is only one.

    `streams` are those of the view's own model where nothing else is said.
    """
    own: tuple[Stream, ...] = ("src", "tgt") if view.trace.src_tokens else ("tgt",)
    choices = own if streams is None else streams
    now: Stream = "tgt" if view.state.stream == "tgt" or len(choices) == 1 else "src"
    if len(choices) > 1:
        st.session_state[key] = now
        st.segmented_control(
            view.t("streams.which"),
            choices,
            format_func=lambda stream: view.t(f"streams.{stream}"),
            required=True,
            key=key,
            on_change=lambda: session.change(stream=st.session_state[key]),
        )
    return now
