"""Long computations that run in their own thread and can be stopped."""

import time
from collections.abc import Callable, Hashable
from threading import Event, Thread
from typing import Generic, TypeVar

from explorer.engine.turns import SHORT, TURNS
from explorer.runs.passes import so_far

Result = TypeVar("Result")
Tell = Callable[[int, int], bool]
"""Takes what is done and the total; False once the result is not wanted any more."""
ABSENCE = 15.0
"""Seconds that work continues for a disconnected session, which may reconnect."""

BEHIND = 2 * SHORT
"""Seconds of computing that a job is charged in advance, so that each page's script precedes it."""


class Job(Generic[Result]):
    """One computation in its own thread; `work` receives the function that reports steps.

    `is_here` returns whether the session that requested it is still connected.
    """

    def __init__(
        self,
        key: Hashable,
        work: Callable[[Tell], Result],
        is_here: Callable[[], bool] = lambda: True,
    ) -> None:
        self.key = key
        self.done, self.total = 0, 1
        self.written = ""  # the output so far
        self._wanted = True
        self._is_here, self._seen = is_here, time.monotonic()
        self._ticket = TURNS.ticket(used=BEHIND)
        self._over = Event()
        self._result: Result | None = None
        self._problem: Exception | None = None
        Thread(target=self._run, args=(work,), daemon=True).start()

    def _run(self, work: Callable[[Tell], Result]) -> None:
        try:
            with TURNS.turn(self._ticket):
                self._result = work(self._tell)
        except Exception as problem:  # raised again by `result`, in the caller's thread
            self._problem = problem
        finally:
            self._over.set()

    def _tell(self, done: int, total: int) -> bool:
        self.done, self.total, self.written = done, total, so_far.get()
        TURNS.rest()
        if self._is_here():
            self._seen = time.monotonic()
        return self._wanted and time.monotonic() - self._seen < ABSENCE

    @property
    def ahead(self) -> int:
        """How many computations are ahead of this one in the queue."""
        return TURNS.ahead(self._ticket)

    def stop(self) -> None:
        """Ask the work to end with its partial result, if any."""
        self._wanted = False

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to end."""
        return not self._wanted

    def wait(self, seconds: float | None) -> bool:
        """Wait at most `seconds` (None: no limit) while others compute; whether it is over."""
        if self._over.is_set():  # keep the turn: getting it back would take another thread's step
            return True
        with TURNS.away():
            return self._over.wait(seconds)

    def result(self) -> Result:
        """The result. Raises the error of the work, if any."""
        self.wait(None)
        if self._problem is not None:
            raise self._problem
        return self._result  # type: ignore[return-value]
