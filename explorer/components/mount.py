"""Registers each view once and reads what was clicked.

A view's JS is shared.js followed by its own file, its CSS the palette, shared.css and its own
file. Only files of this folder go into them: whatever a user typed travels as data and is drawn
with textContent or fillText.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from explorer.figures.theme import css

FOLDER = Path(__file__).parent


@cache
def view(name: str) -> Callable[..., Any]:
    """The mounting command of a view, registered at its first use and then kept.

    Streamlit registers it again by itself on a runtime that has not seen it.
    """

    def read(file: str) -> str:
        return (FOLDER / file).read_text(encoding="utf-8")

    return st.components.v2.component(
        f"headlight_{name}",
        html='<div class="hl"></div>',
        css="\n".join((css(), read("shared.css"), read(f"{name}.css"))),
        js="\n".join((read("shared.js"), read(f"{name}.js"))),
    )


def clicked(name: str, data: bytes, key: str) -> Any:
    """Show the view and return what this click picked; None in every run without a click."""
    return view(name)(key=key, data=data, on_picked_change=lambda: None).picked


def clicked_pair(name: str, data: bytes, key: str) -> tuple[int, int] | None:
    """As `clicked`, for views that pick two numbers."""
    picked = clicked(name, data, key)
    return None if picked is None else (int(picked[0]), int(picked[1]))


def clicked_index(name: str, data: bytes, key: str) -> int | None:
    """As `clicked`, for views that pick one number."""
    picked = clicked(name, data, key)
    return None if picked is None else int(picked)
