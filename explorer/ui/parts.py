"""Button groups for a choice of few (part of a page, group, stream), stored in the link."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import streamlit as st

from explorer.exhibits.shared import PartChoices
from explorer.exhibits.view import View
from explorer.ui import session
from explorer.ui.stage import parts_place
from models.rows import Stream

Choice = TypeVar("Choice", bound=str)


def one_chosen(
    view: View, field: str, options: Sequence[Choice], usual: Choice | None = None
) -> Choice:
    """The option stored in the state's `field`; `usual` (else the first) if it is none of them."""
    kept = session.links().chosen(view.state, field)
    usual = options[0] if usual is None else usual
    return next((option for option in options if option == kept), usual)


def pick_one(
    view: View,
    field: str,
    label: str,
    options: Sequence[Choice],
    key: str,
    format_func: Callable[[Choice], str],
    usual: Choice | None = None,
    **more: Any,
) -> Choice:
    """Choose one of a few options with buttons; the state stores it in `field`.

    Defaults to `usual` (else the first) if the state has none of them: several pages share a field.
    """
    st.session_state[key] = now = one_chosen(view, field, options, usual)
    st.segmented_control(
        label,
        options,
        format_func=format_func,
        required=True,
        key=key,
        on_change=lambda: session.change(**{field: st.session_state[key]}),
        **more,
    )
    return now


def pick_part(view: View, page: str, parts: Sequence[str]) -> str:
    """Choose a part of a page; defaults to the first if the state has none of them."""
    with parts_place():
        return pick_one(
            view,
            "part",
            view.t(f"{page}.part"),
            parts,
            f"{page}.part",
            lambda name: view.t(f"{page}.parts.{name}"),
            label_visibility="collapsed",
        )


def pick_group(
    view: View,
    page: str,
    label: str,
    groups: Sequence[str],
    now: str,
    change: Callable[[str], None],
) -> None:
    """Choose the group of the open item; `change` opens the first item of another group."""
    key = f"{page}.group"
    st.session_state[key] = now
    st.segmented_control(
        label,
        groups,
        format_func=lambda group: view.t(f"{page}.groups.{group}"),
        required=True,
        key=key,
        on_change=lambda: change(st.session_state[key]),
    )


def pick_stream(view: View, key: str, streams: tuple[Stream, ...] | None = None) -> Stream:
    """Choose a token stream; shows no control if there is only one.

    `streams` defaults to the streams of the view's model.
    """
    choices = view.loaded.model.reads if streams is None else streams
    now: Stream = "tgt" if view.choices(PartChoices).stream == "tgt" or len(choices) == 1 else "src"
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
