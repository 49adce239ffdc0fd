"""One thread of this process computes at a time; short work goes before long work.

Threads that compute at once fight for Python's interpreter: each small torch call gives it away and
waits to get it back. A script's run therefore takes a turn, and rests before every pass of a model
(`runs.passes`) and at every step of what it computes, where those go first that have computed
less (least attained service: Rai, Urvoy-Keller and Biersack 2003). So a click waits for the step
that somebody's long computation has begun, and not for the computation. Nor for one step after
another: where short work is away for a moment, long work begins no step until it has had time to
come back (anticipatory scheduling: Iyer and Druschel 2001).
"""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from explorer.runs.passes import letting

SHORT = 0.3
"""Seconds of computing up to which nobody is overtaken by those who came later."""
LONG = 2.0
"""Seconds of computing from which on work waits while shorter work is away for a moment."""
LULL = 0.06
"""Seconds in which short work may come back before long work goes on: somewhat more than those that
`painting` waits for, and than a page takes to wake up once its job is done."""
MOST_WAITED = 5.0
"""Seconds that the end of a process waits for those who compute."""


class Ticket:
    """The place of one thread in the queue; `used` are the seconds it has computed so far."""

    def __init__(self, number: int) -> None:
        self.number, self.used, self.since = number, 0.0, 0.0
        self.called = threading.Event()

    def wait(self) -> None:
        """Until it is called, from when on its time counts."""
        self.called.wait()
        self.since = time.perf_counter()

    def stop(self) -> None:
        """Count the time since it was called."""
        self.used += time.perf_counter() - self.since

    @property
    def rank(self) -> tuple[float, int]:
        """The smallest goes first: short work as it came, then what has computed least."""
        return max(0.0, self.used - SHORT), self.number


class Turns:
    """A queue of threads, of which one at a time computes."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: list[Ticket] = []
        self._holder: Ticket | None = None
        self._here = threading.local()

    def ticket(self) -> Ticket:
        """A place at the end of the queue."""
        return Ticket(next(self._numbers))

    @contextmanager
    def turn(self, ticket: Ticket | None = None) -> Iterator[None]:
        """Compute inside, with a ticket drawn before, or a new one.

        A thread that is in its turn already goes on with it.
        """
        if self._mine() is not None:
            yield
            return
        self._here.ticket = ticket = ticket or self.ticket()
        self._take(ticket)
        try:
            with letting(self.rest):
                yield
        finally:
            self._leave(ticket)
            self._here.ticket = None

    def rest(self) -> None:
        """Let those go first who have computed less. Does nothing outside a turn, or while away."""
        ticket = self._mine()
        if ticket is None or ticket is not self._holder:  # nobody else makes it so, or ends it
            return
        if not self._waiting:  # read without the guard: one step late is no harm
            return
        with self._guard:
            ticket.stop()
            ticket.called.clear()
            self._waiting.append(ticket)
            self._call()
        ticket.wait()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Wait inside for something else, or read a file, while others compute."""
        ticket = self._mine()
        if ticket is None or ticket is not self._holder:
            yield
            return
        self._leave(ticket)
        try:
            yield
        finally:
            self._take(ticket)

    def end(self) -> None:
        """Take the turn for good: whoever computes ends its step, and nobody begins another."""
        ticket = Ticket(-1)  # before all others
        with self._guard:
            self._waiting.append(ticket)
            if self._holder is None:
                self._call()
        ticket.called.wait(MOST_WAITED)

    def ahead(self, ticket: Ticket) -> int:
        """How many threads compute before this one does; 0 while it computes itself."""
        with self._guard:
            if ticket not in self._waiting:
                return 0
            return 1 + sum(each.rank < ticket.rank for each in self._waiting)

    def _mine(self) -> Ticket | None:
        ticket: Ticket | None = getattr(self._here, "ticket", None)
        return ticket

    def _take(self, ticket: Ticket) -> None:
        with self._guard:
            ticket.called.clear()
            self._waiting.append(ticket)
            if self._holder is None:
                self._call()
        ticket.wait()

    def _leave(self, ticket: Ticket) -> None:
        with self._guard:
            ticket.stop()
            self._holder = None
            following = min(self._waiting, key=lambda each: each.rank, default=ticket)
            if following.rank > ticket.rank and following.used > LONG:
                pause = threading.Timer(LULL, self._go_on)
                pause.daemon = True
                pause.start()
            elif self._waiting:
                self._call()

    def _go_on(self) -> None:
        """Who waits goes on, unless somebody computes by now."""
        with self._guard:
            if self._waiting and self._holder is None:
                self._call()

    def _call(self) -> None:
        """Hand the turn over. The guard is held."""
        following = min(self._waiting, key=lambda each: each.rank)
        self._waiting.remove(following)
        self._holder = following
        following.called.set()


TURNS = Turns()
"""The turns of this process."""


@contextmanager
def computing() -> Iterator[None]:
    """Compute inside in this thread's turn; over a function: whenever it is called."""
    with TURNS.turn():
        yield


def waiting() -> AbstractContextManager[None]:
    """Wait inside for something else, or read a file, while others compute."""
    return TURNS.away()


def rest() -> None:
    """Let those go first who have computed less, between two steps of what takes long."""
    TURNS.rest()


def end() -> None:
    """At the end of the process: whoever computes ends its step, and nobody begins another."""
    TURNS.end()
