"""Yield to other sessions between forward passes, if the thread is configured to.

`explorer.engine` decides which thread yields and how, and stores it in a `ContextVar`, like a
visitor; so neither the model nor an analysis knows of other sessions. Importing this module makes
every model of the process announce its passes.
"""

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

from models.transformer import Stack

P = ParamSpec("P")
Result = TypeVar("Result")
Clock = Callable[[], float]
Steps = Generator[tuple[int, int], bool | None, Result]
"""Long work, step by step: it yields (done, total) and returns its result. After a stop, `yield`
returns False."""
_let_others: ContextVar[Callable[[], None] | None] = ContextVar("let_others", default=None)
so_far: ContextVar[str] = ContextVar("so_far", default="")
"""What a decoding in this thread has written by now; "" once it is over."""


@contextmanager
def letting(do: Callable[[], None] | None) -> Iterator[None]:
    """Call `do` before each forward pass inside the block; None: call nothing."""
    token = _let_others.set(do)
    try:
        yield
    finally:
        _let_others.reset(token)


def give_way() -> None:
    """Let other sessions run first; called before a pass or something equally long."""
    do = _let_others.get()
    if do is not None:
        do()


class StoppedError(Exception):
    """The work has no result, since the user stopped it or disconnected."""


def walked(steps: Steps[Result], tell: Callable[[int, int], object] | None = None) -> Result:
    """Run work step by step and return its result; other sessions may run between its steps.

    `tell` is called with the progress. If it returns False, the work is sent False. It may then
    return a partial result; otherwise it is closed, and StoppedError is raised.
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
        give_way()
        wanted = tell is None or tell(done, total) is not False


def at_once(work: Callable[P, Steps[Result]]) -> Callable[P, Result]:
    """The function that does such work at once."""

    @wraps(work)
    def whole(*args: P.args, **kwargs: P.kwargs) -> Result:
        return walked(work(*args, **kwargs))

    return whole


def timed(call: Callable[[], Result], clock: Clock = time.perf_counter) -> tuple[float, Result]:
    """The seconds that a call takes, and its result; yields before the call, not during it."""
    give_way()
    with letting(None):
        start = clock()
        result = call()
        return clock() - start, result


class Exclusive:
    """A lock between sessions for something that exists once per process.

    Its holder does not yield to sessions that might wait for the lock: hold it briefly.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock inside the block; reentrant within a thread."""
        with letting(None), self._lock:
            yield


_GENERATOR = Exclusive()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run a block with torch's global generator at `seed`; its state is restored afterwards.

    All sessions share this generator, so their blocks run one at a time: keep them short.
    """
    with _GENERATOR.held(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


Stack.announce = staticmethod(give_way)
