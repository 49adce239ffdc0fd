"""When a page is painted, and the size of its charts in classroom mode.

The answer to a click is sent in parts, the text first, so that the browser paints them one by one:
a chart takes the browser 50 to 100 ms, a page with several charts half a second, and everything
that arrives together with them is painted only afterwards.
"""

import threading
import time
from collections.abc import Hashable
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from explorer.engine.turns import waiting

BEAMER = 1.3
"""Scale factor of pictures in classroom mode; must match page.css."""
AROUND = "11rem"
"""Height above and below a picture in classroom mode: the bar, the sentence, the reading."""
FRAMES = "div:not(.stPlotlyChart *)"
"""Streamlit's padding around a chart."""


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


MOMENT = 0.05
"""Seconds until the output sent so far is painted: Streamlit sends every 10 ms, React renders for
20 to 40 ms and restarts if more arrives, and a browser paints every 17 ms."""
_HERE = threading.local()


def is_new(what: str, value: Hashable) -> bool:
    """Whether a fragment runs with this value for the first time; its display is then sent
    first."""
    name = f"stage.{what}"
    before, st.session_state[name] = st.session_state.get(name), value
    return before != value and _run_of_a_fragment() is not None


def words_first(run: Hashable) -> None:
    """Call this after the text about a run: for a new run, the text is painted first."""
    if is_new("run", run):
        pause()


def charts_last() -> None:
    """Call this before each chart: the first one waits until everything above it is painted."""
    now = _run_of_a_fragment()
    if now is None or now is getattr(_HERE, "run", None):
        return
    _HERE.run = now
    pause()


def _run_of_a_fragment() -> object | None:
    """An object that identifies this run of a fragment.

    None in a run of the whole page, where nothing should wait.
    """
    context = get_script_run_ctx()
    return None if context is None or not context.fragment_ids_this_run else context.cursors


def pause() -> None:
    """Wait until the output sent so far is painted."""
    with waiting():
        time.sleep(MOMENT)
