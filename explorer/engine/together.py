"""Batches: requests of waiting sessions that one pass can answer are answered together."""

import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from explorer.engine.turns import TURNS, Turns

Item = TypeVar("Item")
Answer = TypeVar("Answer")
MOST = 32
"""The most items in one batch."""


@dataclass(eq=False)
class _Asked:
    item: Any
    over: threading.Event = field(default_factory=threading.Event)
    is_taken: bool = False
    answer: list[Any] = field(default_factory=list)  # empty if the batch failed


class Together:
    """Requests by group. The first thread whose turn comes answers all of its group."""

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
        """`mine` and the oldest others of its group, at most MOST."""
        waiting = self._waiting.pop(group)
        waiting.remove(mine)
        batch, rest = [mine, *waiting[: MOST - 1]], waiting[MOST - 1 :]
        if rest:
            self._waiting[group] = rest
        for request in batch:
            request.is_taken = True
        return batch


TOGETHER = Together(TURNS)
"""The batches of this process."""
