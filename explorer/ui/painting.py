"""The answer to a click in pieces, the words first: what the browser is given by itself it paints
by itself.

A chart takes a browser 50 to 100 ms, a page with several half a second, and nothing of what arrives
together with them is on the screen before.
"""

import threading
import time
from collections.abc import Callable, Hashable, Sequence

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from explorer.components.standalone import Block, record, recorded_apart
from explorer.engine.turns import waiting

MOMENT = 0.05
"""Seconds in which what was sent so far arrives and is painted: Streamlit sends every 10 ms, React
builds for 20 to 40 and begins anew when more arrives meanwhile, and a browser paints every 17."""
_HERE = threading.local()


def is_new(what: str, value: Hashable) -> bool:
    """Whether a run of a fragment is the first with this value: then what shows it goes first."""
    name = f"painting.{what}"
    before, st.session_state[name] = st.session_state.get(name), value
    return before != value and _run_of_a_fragment() is not None


def in_order(parts: Sequence[Callable[[], None]], first: Callable[[], None] | None = None) -> None:
    """Draw each of these below the one before; `first`, one of them, is painted before the rest.

    What is kept of the page (`components.standalone`) has their order all the same.
    """
    places = {part: st.container() for part in parts}
    kept: dict[Callable[[], None], list[Block]] = {}
    for part in sorted(parts, key=lambda each: each is not first):
        with places[part], recorded_apart() as kept[part]:
            part()
        if part is first:
            pause()
    for part in parts:
        for block in kept[part]:
            record(block)


def words_first(run: Hashable) -> None:
    """Call it behind the words that tell of a run: if it is a new one, they are painted first."""
    if is_new("run", run):
        pause()


def charts_last() -> None:
    """Call it before each chart: the first one waits until all above it is painted."""
    now = _run_of_a_fragment()
    if now is None or now is getattr(_HERE, "run", None):
        return
    _HERE.run = now
    pause()


def _run_of_a_fragment() -> object | None:
    """What stands for this run of the script, a new object each time.

    None in a run of the whole page, where all is new and nothing should wait.
    """
    context = get_script_run_ctx()
    return None if context is None or not context.fragment_ids_this_run else context.cursors


def pause() -> None:
    """What was sent so far is painted before more of it comes."""
    with waiting():
        time.sleep(MOMENT)
