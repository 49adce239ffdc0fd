"""Work that takes long and can be stopped: a thread of its own, beside whoever asked for it."""

import time
from collections.abc import Callable, Generator, Hashable
from threading import Event, Thread
from typing import Generic, TypeVar

from explorer.engine.turns import TURNS, rest
from explorer.runs.generation import StepsDone

Result = TypeVar("Result")
Steps = Generator[tuple[int, int], bool | None, Result]
"""Long work, step by step: what is done of what, and at last its result."""
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


def whole(tell: StepsDone) -> Callable[[int, int], None]:
    """The same, for work that is worth nothing unless it comes to its end.

    Where nobody wants it any more it raises StoppedError.
    """

    def step(done: int, total: int) -> None:
        if not tell(done, total):
            raise StoppedError

    return step


def walked(steps: Steps[Result], tell: Callable[[int, int], object] | None = None) -> Result:
    """What a generator returns that yields (done, total) on its way; between two of its steps
    others may go first.

    Where `tell` answers False, the generator is sent False. One that has something to give by then
    returns it; any other is closed, with StoppedError.
    """
    wanted: bool | None = None
    while True:
        try:
            done, total = steps.send(wanted)
        except StopIteration as end:
            answer: Result = end.value
            return answer
        if wanted is False:
            steps.close()
            raise StoppedError
        rest()
        wanted = tell is None or tell(done, total) is not False
