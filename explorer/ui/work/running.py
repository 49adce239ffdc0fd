"""Work that takes long and can be stopped: a thread beside the page, asked now and then.

A page that computed by itself could not hear of a click until it was done: Streamlit lets one
fragment's run end before the next begins.
"""

import time
from collections.abc import Callable, Hashable
from threading import Event, Thread
from typing import Generic, TypeVar

import streamlit as st
from streamlit.runtime import Runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from explorer.runs.generation import StepsDone
from explorer.text import t
from explorer.ui.work.turns import TURNS

Result = TypeVar("Result")
PATIENCE = 1.0
"""Seconds that a page waits by itself before it shows a button to stop."""
ABSENCE = 15.0
"""Seconds that work goes on for a visitor who is gone: a line may have broken off."""


class StoppedError(Exception):
    """Work that has no result, since the visitor stopped it or is gone."""


class Job(Generic[Result]):
    """One piece of work in a thread of its own; `work` is given the function to tell of steps.

    `is_here` says whether the visitor who asked for it is still there.
    """

    def __init__(
        self,
        key: Hashable,
        work: Callable[[StepsDone], Result],
        is_here: Callable[[], bool] = lambda: True,
    ) -> None:
        self.key = key
        self.done, self.total = 0, 1
        self._wanted = True
        self._is_here, self._seen = is_here, time.monotonic()
        self._ticket = TURNS.ticket()
        self._over = Event()
        self._result: Result | None = None
        self._problem: Exception | None = None
        Thread(target=self._run, args=(work,), daemon=True).start()

    def _run(self, work: Callable[[StepsDone], Result]) -> None:
        try:
            with TURNS.turn(self._ticket):
                self._result = work(self._tell)
        except Exception as problem:  # raised again by `result`, in the thread of who asked
            self._problem = problem
        finally:
            self._over.set()

    def _tell(self, done: int, total: int) -> bool:
        self.done, self.total = done, total
        TURNS.rest()
        if self._is_here():
            self._seen = time.monotonic()
        return self._wanted and time.monotonic() - self._seen < ABSENCE

    @property
    def ahead(self) -> int:
        """How many computations go before this one now."""
        return TURNS.ahead(self._ticket)

    def stop(self) -> None:
        """Ask the work to end with what it has."""
        self._wanted = False

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to end."""
        return not self._wanted

    def wait(self, seconds: float | None) -> bool:
        """Wait so long at most (None: to the end), while others compute; whether it is over."""
        if self._over.is_set():  # a turn that is given away takes a step of the others' to return
            return True
        with TURNS.away():
            return self._over.wait(seconds)

    def result(self) -> Result:
        """What came out. Raises what the work raised."""
        self.wait(None)
        if self._problem is not None:
            raise self._problem
        return self._result  # type: ignore[return-value]


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
    with TURNS.away():  # for all of it: a turn back may take as long as a step of the work
        for _ in range(10):
            if running.wait(PATIENCE / 10):
                break
            place.progress(min(1.0, running.done / max(1, running.total)), working)
    place.empty()
    if running.wait(0):
        return True
    _watch(running, name, working, stop, lang)
    return False


def whole(tell: StepsDone) -> Callable[[int, int], None]:
    """The same, for work that is worth nothing unless it comes to its end.

    Where nobody wants it any more it raises StoppedError.
    """

    def step(done: int, total: int) -> None:
        if not tell(done, total):
            raise StoppedError

    return step


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
