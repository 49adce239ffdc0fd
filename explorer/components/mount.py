"""Registers each view once and reads what was clicked.

Streamlit would send a view's script and styles with every message to it, fifty kilobytes to move
one number. It sends a line instead, which imports the script from the server (`explorer.scripts`).

User input is sent as data and drawn with textContent or fillText. Streamlit is imported inside
functions: a notebook packs and draws views without it.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from explorer.scripts import SCRIPTS, script

LOADER = """\
const base = window.__streamlit?.BACKEND_BASE_URL ?? document.baseURI;
const {{ default: draw, styles }} = await import(new URL("{address}", base));
const pressed = ":is(a, button, canvas:not(.brush), label, summary):active";
export default async function (view) {{
  const own = view.parentElement, turn = (own.turn = (own.turn ?? 0) + 1);
  while (document.querySelector("#hl-first:active") || own.querySelector(pressed)) {{
    await new Promise(requestAnimationFrame);
  }}
  if (turn < own.turn) return undefined;
  const first = window.headlightFirst;
  const parentElement = (first?.view === "{name}" && first.take(view)) || own;
  if (parentElement !== own && first.shows(view.data)) return undefined;
  parentElement.adoptedStyleSheets = [styles];
  return draw({{ ...view, parentElement }});
}}
"""
"""A press would be lost in a button that is replaced before it is released, so a view is drawn
afterwards, with the newest message. Until the page is complete, it draws into the picture that was
there before (first.js), unless that shows the same."""


@cache
def view(name: str) -> Callable[..., Any]:
    """The function that mounts a view; it takes `key`, `data` and Streamlit's own arguments.

    The view is registered at its first use; Streamlit itself registers it again on a new runtime.
    """
    import streamlit as st

    return st.components.v2.component(
        f"headlight_{name}",
        html='<div class="hl"></div>',
        js=LOADER.format(name=name, address=f"{SCRIPTS}/{script(name)[1]}"),
    )


Index = tuple[int, ...]


def whole(given: Any) -> int | None:
    """An integer sent by the browser, also one written as a float in JSON; None for anything else.

    The value is untrusted: it may not come from the view's own script.
    """
    if isinstance(given, float) and given.is_integer():  # False for nan and infinity
        return int(given)
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def index_of(picked: Any, shape: Index) -> Index | None:
    """Validate an index into `shape` sent by the browser; None for no click or a stale one.

    A click can arrive late, when the data already has fewer tokens. A single number need not be in
    a list.
    """
    numbers = picked if isinstance(picked, list | tuple) else [picked]
    if len(numbers) != len(shape):
        return None
    place = tuple(inside(number, size) for number, size in zip(numbers, shape, strict=True))
    index = tuple(at for at in place if at is not None)
    return index if len(index) == len(shape) else None


def sent(key: str, what: str) -> Any:
    """The raw value just sent by the view with this key; else None."""
    import streamlit as st

    before = st.session_state.get(key)
    return before.get(what) if before else None


def newest_turn(key: str, turn: int | None) -> int | None:
    """The number of the view's last choice that Python has received.

    It is part of every payload, so that the browser can ignore one packed before a newer choice
    arrived.
    """
    import streamlit as st

    if turn is not None:
        st.session_state[f"{key}.turn"] = turn
    last: int | None = st.session_state.get(f"{key}.turn")
    return last


def inside(index: Any, size: int) -> int | None:
    """An index sent by the browser if it is in range, else None."""
    number = whole(index)
    return number if number is not None and 0 <= number < size else None
