"""Classroom mode: sentence and picture first, controls below them, everything larger."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import streamlit as st

from explorer.exhibits.shared import ScreenChoices
from explorer.ui import session

BEAMER = 1.3
"""Scale factor of pictures in classroom mode; must match page.css."""
AROUND = "11rem"
"""Height above and below a picture in classroom mode: the bar, the sentence, the reading."""
FRAMES = "div:not(.stPlotlyChart *)"
"""Streamlit's padding around a chart."""
_STAGE: ContextVar[st.delta_generator.DeltaGenerator | None] = ContextVar("stage", default=None)


@contextmanager
def stage() -> Iterator[None]:
    """In classroom mode, place the sentence and everything inside `hero` above the controls.
    Otherwise the order does not change.
    """
    beamer = session.state().of(ScreenChoices).beamer
    token = _STAGE.set(st.container(key="stage") if beamer else None)
    try:
        yield
    finally:
        _STAGE.reset(token)


def hero() -> AbstractContextManager[object]:
    """The place of a page's main picture: see `stage`."""
    return _STAGE.get() or nullcontext()


def enlarged(figure: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """A figure for the classroom mode: fonts and margins scaled by the factor of page.css.

    The returned CSS rule scales its height, limited to the screen height (as at 200 % zoom). The
    rule is empty if the figure has no height.
    """
    layout = dict(figure["layout"])
    font, margin, tall = layout.get("font", {}), layout.get("margin", {}), layout.pop("height", 0)
    layout["font"] = {**font, "size": font.get("size", 12) * BEAMER}
    layout["margin"] = {name: value * BEAMER for name, value in margin.items()}
    room = f"min({tall * BEAMER:g}px, max({max(170, tall * 0.7):g}px, 100vh - {AROUND}))"
    rule = f"{FRAMES} {{ height: {room}; min-height: 0 }}" if tall else ""
    return {**figure, "layout": layout}, rule
