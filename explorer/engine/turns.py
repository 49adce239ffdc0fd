"""Scheduler: one thread of this process computes at a time; short work goes before long work.

Threads that compute concurrently compete for the GIL: each small torch call releases it and waits
to reacquire it. Each script run therefore takes a turn. It yields before every forward pass
(`runs.passes`) and at every step of a computation to threads that have computed less (least
attained service: Rai, Urvoy-Keller and Biersack 2003). So a click waits only for the current step
of another session's long computation. If short work yields for a moment, long work pauses before
its next step, so that the short work can resume first (anticipatory scheduling: Iyer and Druschel
2001). Requests of waiting sessions that one pass can answer are answered together (`Together`).
"""

import itertools
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeVar

from explorer.runs.passes import letting

Item = TypeVar("Item")
Answer = TypeVar("Answer")

SHORT = 0.3
"""Seconds of computing during which threads are served in order of arrival."""
LONG = 2.0
"""Seconds of computing after which work waits for shorter work that is away for a moment."""
LULL = 0.06
"""Seconds that long work waits for short work to return: slightly longer than `stage` waits, and
than a page takes to wake up after its job is done."""
MOST_WAITED = 5.0
"""Seconds that shutdown waits for the thread that is computing."""


class Ticket:
    """The place of one thread in the queue; `used` are the seconds it has computed so far."""

    def __init__(self, number: int, used: float = 0.0) -> None:
        self.number, self.used, self.since = number, used, 0.0
        self.called = threading.Event()

    def wait(self) -> None:
        """Wait until it is called; its computing time starts then."""
        self.called.wait()
        self.since = time.perf_counter()

    def stop(self) -> None:
        """Add the time since it was called to `used`."""
        self.used += time.perf_counter() - self.since

    @property
    def rank(self) -> tuple[float, int]:
        """The smallest goes first: short work in order of arrival, then by least computing time."""
        return max(0.0, self.used - SHORT), self.number


_RANK = attrgetter("rank")


class _Here(threading.local):
    ticket: Ticket | None = None
    """The ticket with which this thread computes, or waits for its turn."""


class Turns:
    """A queue of threads, one of which computes at a time."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: list[Ticket] = []
        self._holder: Ticket | None = None
        self._here = _Here()

    def ticket(self, used: float = 0.0) -> Ticket:
        """A place at the end of the queue, as if it had computed for `used` seconds."""
        return Ticket(next(self._numbers), used)

    @contextmanager
    def turn(self, ticket: Ticket | None = None) -> Iterator[None]:
        """Context in which this thread may compute, with the given ticket or a new one.

        A thread that already has its turn keeps it.
        """
        if self._here.ticket is not None:
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
        """Yield to threads that have computed less. Does nothing outside a turn or while away."""
        ticket = self._here.ticket
        if ticket is None or ticket is not self._holder:  # only this thread changes this
            return
        if not self._waiting:  # read without the lock: a delay of one step is harmless
            return
        with self._guard:
            ticket.stop()
            ticket.called.clear()
            self._waiting.append(ticket)
            self._call()
        ticket.wait()

    def step_back(self) -> None:
        """Let every thread that waits now go once. Does nothing outside a turn or while away."""
        ticket = self._here.ticket
        if ticket is not None and ticket is self._holder and self._waiting:
            ticket.number = next(self._numbers)
            self.rest()

    @contextmanager
    def shared(self, count: int) -> Iterator[None]:
        """Context for work that this thread does for `count` threads: it pays for its own part."""
        ticket, began = self._here.ticket, time.perf_counter()
        try:
            yield
        finally:
            if ticket is not None:
                ticket.used -= (time.perf_counter() - began) * (1 - 1 / count)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Context for waiting or reading a file: other threads compute until it ends."""
        ticket = self._here.ticket
        if ticket is None or ticket is not self._holder:
            yield
            return
        self._leave(ticket)
        try:
            yield
        finally:
            self._take(ticket)

    def end(self) -> None:
        """Take the turn permanently: the current step ends, and no other begins."""
        ticket = Ticket(-1)  # before all others
        with self._guard:
            self._waiting.append(ticket)
            if self._holder is None:
                self._call()
        ticket.called.wait(MOST_WAITED)

    def ahead(self, ticket: Ticket) -> int:
        """How many threads compute before this one; 0 while it computes itself."""
        with self._guard:
            if ticket not in self._waiting:
                return 0
            return 1 + sum(waiter.rank < ticket.rank for waiter in self._waiting)

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
            following = min(self._waiting, key=_RANK, default=ticket)
            if following.rank > ticket.rank and following.used > LONG:
                pause = threading.Timer(LULL, self._go_on)
                pause.daemon = True
                pause.start()
            elif self._waiting:
                self._call()

    def _go_on(self) -> None:
        """Call the next waiting thread, unless a thread is already computing."""
        with self._guard:
            if self._waiting and self._holder is None:
                self._call()

    def _call(self) -> None:
        """Hand the turn over. The caller holds the lock."""
        following = min(self._waiting, key=_RANK)
        self._waiting.remove(following)
        self._holder = following
        following.called.set()


TURNS = Turns()
"""The turns of this process."""


computing, waiting, rest, end = TURNS.turn, TURNS.away, TURNS.rest, TURNS.end
"""The same, of this process; as a decorator, `computing()` takes a turn during each call."""


MOST_TOGETHER = 32
"""The most items in one batch."""


@dataclass(eq=False)
class _Asked:
    item: Any
    over: threading.Event = field(default_factory=threading.Event)
    is_taken: bool = False
    answer: list[Any] = field(default_factory=list)  # empty if the batch failed


class Together:
    """Requests by group. The first thread whose turn comes answers all of its group.

    New sentences of 25 sessions at once are translated in 0.25 s of processor time instead of 1.25.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._guard = threading.Lock()
        self._waiting: dict[Hashable, list[_Asked]] = {}

    def ask(
        self, group: Hashable, item: Item, work: Callable[[list[Item]], list[Answer]]
    ) -> Answer:
        """The answer of `work` for one item; `work` gets items of the same group, in order.

        Sessions that wait for their turn go first, up to their own request. If a batch fails, each
        item is computed alone, so that an error reaches only the session that caused it.
        """
        mine = _Asked(item)
        with self._guard:
            self._waiting.setdefault(group, []).append(mine)
        self._turns.step_back()
        with self._guard:
            batch = [] if mine.is_taken else self._take(group, mine)
        if mine not in batch:
            with self._turns.away():
                mine.over.wait()
        elif len(batch) > 1:
            try:
                # The item that failed raises again below.
                with suppress(Exception), self._turns.shared(len(batch)):
                    answers = work([request.item for request in batch])
                    for request, answer in zip(batch, answers, strict=True):
                        request.answer = [answer]
            finally:
                for request in batch:
                    request.over.set()
        return mine.answer[0] if mine.answer else work([item])[0]

    def _take(self, group: Hashable, mine: _Asked) -> list[_Asked]:
        """`mine` and the oldest others of its group, at most MOST_TOGETHER."""
        waiting = self._waiting.pop(group)
        waiting.remove(mine)
        batch, rest = [mine, *waiting[: MOST_TOGETHER - 1]], waiting[MOST_TOGETHER - 1 :]
        if rest:
            self._waiting[group] = rest
        for request in batch:
            request.is_taken = True
        return batch


TOGETHER = Together(TURNS)
"""The batches of this process."""
