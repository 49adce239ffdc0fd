"""Between two passes of a model others may go first, where a thread was told to let them.

Which thread, and whom it lets, `explorer.engine` decides and keeps in a `ContextVar`, as a visitor
is kept; so neither the model nor an analysis knows of others. Whoever imports this module has every
model of the process announce its passes.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from models.transformer import Stack

Result = TypeVar("Result")
Clock = Callable[[], float]
_let_others: ContextVar[Callable[[], None] | None] = ContextVar("let_others", default=None)


@contextmanager
def letting(do: Callable[[], None] | None) -> Iterator[None]:
    """Call this before each pass of a model inside the block; None: nothing."""
    token = _let_others.set(do)
    try:
        yield
    finally:
        _let_others.reset(token)


def give_way() -> None:
    """A pass is about to begin, or what takes as long: let others go first."""
    do = _let_others.get()
    if do is not None:
        do()


def timed(call: Callable[[], Result], clock: Clock = time.perf_counter) -> tuple[float, Result]:
    """The seconds that a call takes, and what it gives; others go first before it, not within."""
    give_way()
    with letting(None):
        start = clock()
        result = call()
        return clock() - start, result


class Exclusive:
    """A lock that visitors want of each other, since what it guards is there once in a process.

    Whoever holds it lets nobody go first, who might wait for it: keep it short.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it inside; a thread that holds it already goes on."""
        with letting(None), self._lock:
            yield


Stack.announce = staticmethod(give_way)
