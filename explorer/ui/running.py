"""Work that takes long and can be stopped: a thread beside the page, asked now and then.

A page that computed by itself could not hear of a click until it was done: Streamlit lets one
fragment's run end before the next begins.
"""

from collections.abc import Callable, Hashable
from threading import Event, Thread
from typing import Generic, TypeVar

import streamlit as st

from explorer.runs.generation import StepsDone

Result = TypeVar("Result")
PATIENCE = 1.0
"""Seconds that a page waits by itself before it shows a button to stop."""


class Job(Generic[Result]):
    """One piece of work in a thread of its own; `work` is given the function to tell of steps."""

    def __init__(self, key: Hashable, work: Callable[[StepsDone], Result]) -> None:
        self.key = key
        self.done, self.total = 0, 1
        self._wanted = True
        self._over = Event()
        self._result: Result | None = None
        self._problem: Exception | None = None
        Thread(target=self._run, args=(work,), daemon=True).start()

    def _run(self, work: Callable[[StepsDone], Result]) -> None:
        try:
            self._result = work(self._tell)
        except Exception as problem:  # raised again by `result`, in the thread of who asked
            self._problem = problem
        finally:
            self._over.set()

    def _tell(self, done: int, total: int) -> bool:
        self.done, self.total = done, total
        return self._wanted

    def stop(self) -> None:
        """Ask the work to end with what it has."""
        self._wanted = False

    def wait(self, seconds: float) -> bool:
        """Wait so long at most; whether it is over."""
        return self._over.wait(seconds)

    def result(self) -> Result:
        """What came out. Raises what the work raised."""
        self._over.wait()
        if self._problem is not None:
            raise self._problem
        return self._result  # type: ignore[return-value]


def job(name: str, key: Hashable, work: Callable[[StepsDone], Result]) -> Job[Result]:
    """The session's job of this name: the one that runs under `key`, else a new one for it."""
    running: Job[Result] | None = st.session_state.get(name)
    if running is None or running.key != key:
        if running is not None:
            running.stop()
        running = Job(key, work)
        st.session_state[name] = running
    return running


def finished(running: Job[Result], name: str, working: str, stop: str) -> bool:
    """Whether the job is over; else a bar and a button to stop it are shown, and the page waits.

    `working` says what is done, `stop` is the button's label. Once it is over, the page runs again.
    """
    place = st.empty()
    for _ in range(10):
        if running.wait(PATIENCE / 10):
            place.empty()
            return True
        place.progress(running.done / max(1, running.total), working)
    place.empty()
    _watch(running, name, working, stop)
    return False


@st.fragment(run_every=0.4)
def _watch(running: Job[Result], name: str, working: str, stop: str) -> None:
    if running.wait(0):
        st.rerun()
    count = f"{working} {running.done} / {running.total}"
    st.progress(running.done / max(1, running.total), count)
    st.button(stop, key=f"{name}.stop", icon=":material/stop:", on_click=running.stop)
