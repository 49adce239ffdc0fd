"""When a page is painted: its text before its charts, and a job's result (`engine.jobs`) when it is
over, until then its progress, what it has written so far, and a button to stop it.

A page that computes in its own run cannot respond to clicks until it is done: Streamlit finishes
one fragment's run before the next. And the answer to a click is sent in parts, so that the browser
paints them one by one: a chart takes the browser 50 to 100 ms, a page with several charts half a
second, and everything that arrives together with them is painted only afterwards.
"""

import math
import threading
import time
from collections.abc import Callable, Hashable
from hashlib import sha256
from typing import Any, TypeVar

import streamlit as st
from streamlit.runtime import Runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from explorer.engine.jobs import Job, Tell
from explorer.engine.turns import waiting
from explorer.exhibits.block import escape
from explorer.exhibits.view import Viewer
from explorer.runs.passes import StoppedError
from explorer.text import t
from explorer.ui import session

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
        session.run_page()
    if running.is_stopping:
        st.markdown(t("running.stopping", lang=lang))
        return
    label = f"{working} {running.done} / {running.total}"
    if ahead := running.ahead:
        label += " " + t("running.ahead", lang=lang, count=ahead)
    if running.written:
        label += f" :orange[**{escape(running.written)}**]"
    st.progress(min(1.0, running.done / max(1, running.total)), label)
    st.button(stop, key=f"{name}.stop", icon=":material/stop:", on_click=running.stop)


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
