"""Waits for a job (`engine.jobs`), showing its progress and a button to stop it; and for whom.

A page that computes in its own run cannot respond to clicks until it is done: Streamlit finishes
one fragment's run before the next.
"""

import math
from collections.abc import Callable, Hashable
from hashlib import sha256
from typing import TypeVar

import streamlit as st
from streamlit.runtime import Runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from explorer.engine.jobs import Job, StoppedError, Tell
from explorer.engine.turns import waiting
from explorer.exhibits.view import Viewer
from explorer.text import t

Result = TypeVar("Result")
PATIENCE = 1.0
"""Seconds that a page waits before it shows a button to stop."""
MANY = 4
"""Computations that take about as long as PATIENCE together: a page's script takes 0.1 to 0.3 s."""


def job(name: str, key: Hashable, work: Callable[[Tell], Result]) -> Job[Result]:
    """The session's job of this name: the running one if it has this `key`, else a new one."""
    running: Job[Result] | None = st.session_state.get(name)
    if running is None or running.key != key:
        if running is not None:
            running.stop()
        running = Job(key, work, presence())
        st.session_state[name] = running
    return running


def finished(
    running: Job[Result],
    name: str,
    working: str,
    stop: str,
    lang: str,
    most_ahead: float = math.inf,
) -> bool:
    """Whether the job is over; if not, show a progress bar and a stop button.

    `working` is the bar's text, `stop` the button's label. The page reruns once the job is over. It
    does not wait for a job that more than `most_ahead` computations precede.
    """
    place = st.empty()
    with waiting():  # one wait for all polls: getting the turn back may take a whole step
        for _ in range(10):
            if running.wait(PATIENCE / 10) or running.ahead > most_ahead:
                break
            place.progress(min(1.0, running.done / max(1, running.total)), working)
    place.empty()
    if running.wait(0):
        return True
    _watch(running, name, working, stop, lang)
    return False


def awaited(
    name: str,
    key: Hashable,
    work: Callable[[Tell], Result],
    working: str,
    lang: str,
    *,
    stop: str = "running.stop",
    most_ahead: float = MANY,
) -> Result | None:
    """The result of `work`, run as a job of this name; None while it runs or if it was stopped.

    What is below a page's main picture comes later while more than `most_ahead` computations
    precede it. `stop` is the key of the button's label.
    Shows the state of the job, with a button to stop or restart it. Reraises its exceptions.
    """
    running = job(name, key, work)
    if not finished(running, name, working, t(stop, lang=lang), lang, most_ahead):
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
    """A function that returns whether this run's session is still connected; always True without a
    server."""
    context = get_script_run_ctx()
    if context is None or not Runtime.exists():
        return lambda: True
    server, visitor = Runtime.instance(), context.session_id
    return lambda: server.is_active_session(visitor)


def viewer() -> Viewer:
    """The browser and the session of this run."""
    context = get_script_run_ctx()
    return Viewer(browser, context.session_id if context else "", presence())


def browser() -> str:
    """The browser's identity: a digest of its CSRF token, if it has one.

    A shared link contains the name of a training room, but not this.
    """
    token = unmasked(st.context.cookies.get("_streamlit_xsrf", ""))
    return sha256(token.encode()).hexdigest() if token else ""


def unmasked(cookie: str) -> str:
    """The token in Streamlit's cookie, `2|mask|token xor mask|time`: the mask changes at every
    load, the token does not. A cookie of another form is returned as it is."""
    parts = cookie.split("|")
    try:
        mask, token = bytes.fromhex(parts[1]), bytes.fromhex(parts[2])
        return bytes(a ^ b for a, b in zip(token, mask * len(token), strict=False)).hex()
    except (IndexError, ValueError):
        return cookie


@st.fragment(run_every=0.4)
def _watch(running: Job[Result], name: str, working: str, stop: str, lang: str) -> None:
    """Poll the job without taking a turn, so that the stop button stays responsive."""
    if running.wait(0):
        st.rerun()
    if running.is_stopping:
        st.markdown(t("running.stopping", lang=lang))
        return
    label = f"{working} {running.done} / {running.total}"
    if ahead := running.ahead:
        label += " " + t("running.ahead", lang=lang, count=ahead)
    st.progress(min(1.0, running.done / max(1, running.total)), label)
    st.button(stop, key=f"{name}.stop", icon=":material/stop:", on_click=running.stop)
