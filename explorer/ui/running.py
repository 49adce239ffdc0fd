"""A page waits for a job (`engine.jobs`), shows how far it is, and lets its visitor stop it.

A page that computed by itself could not hear of a click until it was done: Streamlit lets one
fragment's run end before the next begins.
"""

from collections.abc import Callable, Hashable
from typing import TypeVar

import streamlit as st
from streamlit.runtime import Runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from explorer.engine.jobs import Job, StoppedError
from explorer.engine.turns import waiting
from explorer.runs.generation import StepsDone
from explorer.text import t

Result = TypeVar("Result")
PATIENCE = 1.0
"""Seconds that a page waits by itself before it shows a button to stop."""


def job(name: str, key: Hashable, work: Callable[[StepsDone], Result]) -> Job[Result]:
    """The session's job of this name: the one that runs under `key`, else a new one for it."""
    running: Job[Result] | None = st.session_state.get(name)
    if running is None or running.key != key:
        if running is not None:
            running.stop()
        running = Job(key, work, presence())
        st.session_state[name] = running
    return running


def finished(running: Job[Result], name: str, working: str, stop: str, lang: str) -> bool:
    """Whether the job is over; else a bar and a button to stop it are shown, and the page waits.

    `working` says what is done, `stop` is the button's label. Once it is over, the page runs again.
    """
    place = st.empty()
    with waiting():  # for all of it: a turn back may take as long as a step of the work
        for _ in range(10):
            if running.wait(PATIENCE / 10):
                break
            place.progress(min(1.0, running.done / max(1, running.total)), working)
    place.empty()
    if running.wait(0):
        return True
    _watch(running, name, working, stop, lang)
    return False


def awaited(
    name: str, key: Hashable, work: Callable[[StepsDone], Result], working: str, lang: str
) -> Result | None:
    """What `work` gives, by a job of this name; None while it runs, and after it was stopped.

    What is the case is shown, with a button to stop it or to begin again. Raises what it raised.
    """
    running = job(name, key, work)
    if not finished(running, name, working, t("running.stop", lang=lang), lang):
        return None
    try:
        return running.result()
    except StoppedError:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(t("running.stopped", lang=lang))
            st.button(
                t("running.again", lang=lang),
                key=f"{name}.again",
                on_click=lambda: st.session_state.pop(name),
            )
        return None


def presence() -> Callable[[], bool]:
    """Whether the visitor of this run is still connected; always, where no server runs."""
    context = get_script_run_ctx()
    if context is None or not Runtime.exists():
        return lambda: True
    server, visitor = Runtime.instance(), context.session_id
    return lambda: server.is_active_session(visitor)


@st.fragment(run_every=0.4)
def _watch(running: Job[Result], name: str, working: str, stop: str, lang: str) -> None:
    """Without a turn of its own: nothing is computed here, and the button must be at hand."""
    if running.wait(0):
        st.rerun()
    if running.is_stopping:
        st.markdown(t("running.stopping", lang=lang))
        return
    said = f"{working} {running.done} / {running.total}"
    if ahead := running.ahead:
        said += " " + t("running.ahead", lang=lang, count=ahead)
    st.progress(min(1.0, running.done / max(1, running.total)), said)
    st.button(stop, key=f"{name}.stop", icon=":material/stop:", on_click=running.stop)
