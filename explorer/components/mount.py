"""Registers each view once and reads what was clicked.

A view's JS is its own file and the modules that this imports, linked into one; its CSS the palette,
shared.css and its own file. Only files of this folder go into them: whatever a user typed travels
as data and is drawn with textContent or fillText.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import streamlit as st

from explorer.components.modules import link
from explorer.components.standalone import FOLDER, View, record
from explorer.figures.theme import css


def view(name: str) -> Callable[..., Any]:
    """The mounting command of a view, which takes `key`, `data` and what Streamlit's own takes."""

    def mount(*, data: bytes, **options: Any) -> Any:
        record(View(name, data))
        return _registered(name)(data=data, **options)

    return mount


@cache
def _registered(name: str) -> Callable[..., Any]:
    """A view's command, registered at its first use and then kept.

    Streamlit registers it again by itself on a runtime that has not seen it.
    """

    def read(file: str) -> str:
        return (FOLDER / file).read_text(encoding="utf-8")

    return st.components.v2.component(
        f"headlight_{name}",
        html='<div class="hl"></div>',
        css="\n".join((css(), read("shared.css"), read(f"{name}.css"))),
        js=link(FOLDER, f"{name}.js"),
    )


Index = tuple[int, ...]


def index_of(picked: Any, shape: Index) -> Index | None:
    """What the browser sent as a place inside `shape`; None for no click or a stale one.

    A click can arrive late, on data that meanwhile has fewer tokens. One number may come bare.
    """
    if picked is None:
        return None
    numbers = picked if isinstance(picked, list | tuple) else [picked]
    place = tuple(int(number) for number in numbers)
    inside = len(place) == len(shape) and all(
        0 <= at < size for at, size in zip(place, shape, strict=True)
    )
    return place if inside else None


def sent(key: str, what: str) -> Any:
    """What the browser has just sent from the view with this key, as it came; else None."""
    before = st.session_state.get(key)
    return before.get(what) if before else None


def inside(index: Any, size: int) -> int | None:
    """An index that the browser sent, where there is such an entry; else None."""
    return int(index) if index is not None and 0 <= int(index) < size else None


def show(
    name: str, key: str, shape: Index, selected: Index | None, pack: Callable[[Index | None], bytes]
) -> Index | None:
    """Show a view and return the place that was just clicked; None in every other run.

    `pack` makes the payload for a selected place. A click selects in the same run, so that a page
    needs no second run to draw it.
    """
    picked = index_of(sent(key, "picked"), shape)
    view(name)(key=key, data=pack(picked or selected), on_picked_change=lambda: None)
    return picked
