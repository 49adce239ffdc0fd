"""Sends the answer to a click in parts, the text first, so that the browser paints them one by one.

A chart takes the browser 50 to 100 ms, a page with several charts half a second, and everything
that arrives together with them is painted only afterwards.
"""

import threading
import time
from collections.abc import Callable, Hashable, Sequence

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from explorer.engine.turns import waiting

MOMENT = 0.05
"""Seconds until the output sent so far is painted: Streamlit sends every 10 ms, React renders for
20 to 40 ms and restarts if more arrives, and a browser paints every 17 ms."""
_HERE = threading.local()


def is_new(what: str, value: Hashable) -> bool:
    """Whether a fragment runs with this value for the first time; its display is then sent
    first."""
    name = f"painting.{what}"
    before, st.session_state[name] = st.session_state.get(name), value
    return before != value and _run_of_a_fragment() is not None


def in_order(parts: Sequence[Callable[[], None]], first: Callable[[], None] | None = None) -> None:
    """Draw each of these below the one before; `first`, one of them, is painted before the rest."""
    places = {part: st.container() for part in parts}
    for part in sorted(parts, key=lambda part: part is not first):
        with places[part]:
            part()
        if part is first:
            pause()


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
