"""The frame of a page: its introduction, and a fragment below that reruns on changes."""

from collections.abc import Callable
from typing import ParamSpec

import streamlit as st

from explorer.engine.turns import computing
from explorer.exhibits.view import View
from explorer.ui import controls
from explorer.ui.current import latest
from explorer.ui.share import shared
from explorer.ui.stage import stage

P = ParamSpec("P")
Draw = Callable[[View], None]


def fragment(function: Callable[P, None]) -> Callable[P, None]:
    """A part of a page that reruns on its own; it waits for its turn to compute."""
    return st.fragment(computing()(function))


def draw_page(view: View, name: str, below: Draw, more: Draw | None = None) -> None:
    """The page `name`: its introduction, then what `below` draws.

    `below` is drawn in a fragment with the latest choices; `more` draws the page's own exports.
    """
    controls.opening(view, name)
    _below(view, name, below, more)


@fragment
def _below(view: View, name: str, below: Draw, more: Draw | None) -> None:
    view = latest(view)
    with shared(view, name, more=more and (lambda: more(view))), stage():
        below(view)
