"""In front of a class: sentence and picture first, controls below them, everything larger."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import streamlit as st

from explorer.exhibits.shared import ScreenChoices
from explorer.ui import session

BEAMER = 1.3
"""How much larger pictures are in front of a class; page.css has the same number."""
AROUND = "11rem"
"""What stands above and below a picture in front of a class: the bar, the sentence, its verdict."""
FRAMES = "div:not(.stPlotlyChart *)"
"""What Streamlit puts round a chart."""
_STAGE: ContextVar[st.delta_generator.DeltaGenerator | None] = ContextVar("stage", default=None)


@contextmanager
def stage() -> Iterator[None]:
    """In front of a class, what is drawn inside `hero`, and the sentence, stand above all else that
    is drawn inside: the controls come below the picture. On other screens nothing moves.
    """
    beamer = session.state().of(ScreenChoices).beamer
    token = _STAGE.set(st.container(key="stage") if beamer else None)
    try:
        yield
    finally:
        _STAGE.reset(token)


def hero() -> AbstractContextManager[object]:
    """The place of the picture that a page is about: see `stage`."""
    return _STAGE.get() or nullcontext()


def enlarged(figure: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """A figure for a class: its letters and margins larger by the factor of page.css.

    Its height, as much larger, is left to the returned CSS rule for its place: on a low screen, as
    at 200 % zoom, it is as high as the screen has room for. Empty where the figure has no height.
    """
    layout = dict(figure["layout"])
    font, margin, tall = layout.get("font", {}), layout.get("margin", {}), layout.pop("height", 0)
    layout["font"] = {**font, "size": font.get("size", 12) * BEAMER}
    layout["margin"] = {name: value * BEAMER for name, value in margin.items()}
    room = f"min({tall * BEAMER:g}px, max({max(170, tall * 0.7):g}px, 100vh - {AROUND}))"
    rule = f"{FRAMES} {{ height: {room}; min-height: 0 }}" if tall else ""
    return {**figure, "layout": layout}, rule
