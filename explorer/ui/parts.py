"""Button groups for a choice of few (part of a page, group, stream), stored in the link."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import streamlit as st

from explorer.engine.cache import alike
from explorer.exhibits import PageChoices, View
from explorer.exhibits.saying import model_title
from explorer.ui import controls, session
from explorer.ui.uploads import models

Choice = TypeVar("Choice", bound=str)


def one_chosen(
    view: View, field: str, options: Sequence[Choice], usual: Choice | None = None
) -> Choice:
    """The option stored in the state's `field`; `usual` (else the first) if it is none of them."""
    kept: Choice = session.links().chosen(view.state, field)
    return kept if kept in options else options[0] if usual is None else usual


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


def pick_part(view: View, page: str, choices: type[PageChoices]) -> str:
    """Choose a part of a page; defaults to the first if the state has none of them.

    The first part of a group is the default there.
    """
    parts, groups = tuple(choices.parts), choices.groups
    now = one_chosen(view, "part", parts)
    with st.container(horizontal=True, gap="medium"):
        if groups:
            group = next(name for name, inside in groups.items() if now in inside)
            parts = groups[group]
            pick_group(
                view, page, view.t(f"{page}.part"), tuple(groups), group,
                lambda name: session.change(part=groups[name][0]), quiet=True,
            )  # fmt: skip
            if len(parts) == 1:
                return now
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
    quiet: bool = False,
) -> None:
    """Choose the group of the open item; `change` opens the first item of another group.

    The label is for screen readers only if `quiet`.
    """
    key = f"{page}.group"
    st.session_state[key] = now
    st.segmented_control(
        label,
        groups,
        format_func=lambda group: view.t(f"{page}.groups.{group}"),
        required=True,
        key=key,
        label_visibility="collapsed" if quiet else "visible",
        on_change=lambda: change(st.session_state[key]),
    )


def pick_model(
    view: View, now: str, label: str, why: str, choose: Callable[[str], None], key: str
) -> None:
    """A menu of the models that this session can open besides the current one, those with the same
    tokenization first, and none (""); `now` is the chosen one."""
    shelf = models()
    # One from a link may not be listed: its error is shown below.
    offered = dict.fromkeys(["", *alike(view.loaded.name, shelf), *shelf, now])
    offered.pop(view.loaded.name, None)
    controls.pick(
        label,
        tuple(offered),
        now if now in offered else "",
        key,
        choose,
        format_func=lambda name: model_title(view, name) if name else view.t("versus.none"),
        help=why,
    )
