"""Registers each view once and reads what was clicked.

A view's JS is its own file and the modules that this imports, linked into one; its CSS the palette,
shared.css and its own file. Only files of this folder go into them: whatever a user typed travels
as data and is drawn with textContent or fillText.

Functions import Streamlit where they need it: a notebook packs and draws views without it.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from explorer.components.modules import link
from explorer.components.standalone import FOLDER, Block, View, record
from explorer.figures.theme import css


def view(name: str) -> Callable[..., Any]:
    """The mounting command of a view, which takes `key`, `data` and what Streamlit's own takes.

    `sent` is what goes to the browser where that is less than `data`, which is all there is to see;
    `kept` what a page that a visitor keeps shows in place of the view.
    """

    def mount(
        *,
        data: bytes,
        sent: bytes | None = None,
        kept: Sequence[Block] | None = None,
        **options: Any,
    ) -> Any:
        for block in (View(name, data),) if kept is None else kept:
            record(block)
        return _registered(name)(data=data if sent is None else sent, **options)

    return mount


@cache
def _registered(name: str) -> Callable[..., Any]:
    """A view's command, registered at its first use and then kept.

    Streamlit registers it again by itself on a runtime that has not seen it.
    """

    import streamlit as st

    def read(file: str) -> str:
        return (FOLDER / file).read_text(encoding="utf-8")

    return st.components.v2.component(
        f"headlight_{name}",
        html='<div class="hl"></div>',
        css="\n".join((css(), read("shared.css"), read(f"{name}.css"))),
        js=link(FOLDER, f"{name}.js"),
    )


Index = tuple[int, ...]


def whole(given: Any) -> int | None:
    """A whole number that the browser sent, whichever way JSON writes it; None for anything else.

    What arrives was sent by whoever speaks the protocol, not only by the view's own script.
    """
    if isinstance(given, float) and given.is_integer():  # neither nan nor infinity is
        return int(given)
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def index_of(picked: Any, shape: Index) -> Index | None:
    """What the browser sent as a place inside `shape`; None for no click or a stale one.

    A click can arrive late, on data that meanwhile has fewer tokens. One number may come bare.
    """
    numbers = picked if isinstance(picked, list | tuple) else [picked]
    if len(numbers) != len(shape):
        return None
    place = tuple(inside(number, size) for number, size in zip(numbers, shape, strict=True))
    found = tuple(at for at in place if at is not None)
    return found if len(found) == len(shape) else None


def sent(key: str, what: str) -> Any:
    """What the browser has just sent from the view with this key, as it came; else None."""
    import streamlit as st

    before = st.session_state.get(key)
    return before.get(what) if before else None


def newest_turn(key: str, turn: int | None) -> int | None:
    """The number of the last choice that the browser made in this view and Python has taken in.

    It goes into every payload: one that was packed before a newer choice arrived is older than
    what the browser shows.
    """
    import streamlit as st

    if turn is not None:
        st.session_state[f"{key}.turn"] = turn
    last: int | None = st.session_state.get(f"{key}.turn")
    return last


def inside(index: Any, size: int) -> int | None:
    """An index that the browser sent, where there is such an entry; else None."""
    number = whole(index)
    return number if number is not None and 0 <= number < size else None


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
