"""Requests to pure functions, computed once for all sessions, directly or step by step."""

import inspect
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from explorer import library
from explorer.engine import caching
from explorer.engine.jobs import Tell, walked

Answer = TypeVar("Answer")


@dataclass(frozen=True, eq=False)
class Request(Generic[Answer]):
    """A function with its arguments.

    `values()` returns the arguments by name. `key` identifies them for the cache and refers to an
    opened model or a Trace by name, so that a request does not hold them. An answer for which
    `worth(answer)` is false is not cached.
    """

    function: Callable[..., Any]
    key: tuple[Hashable, ...]
    values: Callable[[], Mapping[str, Any]]
    worth: Callable[[Any], bool] = caching.always

    @property
    def takes_long(self) -> bool:
        """Whether it is a generator, which yields (done, total) and returns its answer, so that
        other sessions need not wait."""
        return inspect.isgeneratorfunction(self.function)

    @property
    def address(self) -> tuple[Hashable, ...]:
        """The cache key of the answer."""
        name = f"{self.function.__module__}.{self.function.__qualname__}"
        return (name, str(library.CHECKPOINTS), *self.key)


def is_answered(request: Request[Any]) -> bool:
    """Whether the answer is cached."""
    return request.address in caching.STORE


def ask(request: Request[Answer], tell: Tell | None = None) -> Answer:
    """The result of the function, cached for all sessions. Raises any error of the function.

    `tell(done, total)` is called with the progress; if it returns False, the work ends, with
    StoppedError if it has no partial result.
    """
    store, worth = caching.STORE, request.worth
    if not request.takes_long:
        return store.get(request.address, request.function, worth, values=request.values)
    told = [True]

    def hear(done: int, total: int) -> bool:
        told[0] = tell is None or tell(done, total) is not False
        return told[0]

    return store.get(
        request.address,
        walked,
        lambda answer: told[0] and worth(answer),  # a stopped result may be partial
        hear,
        values=lambda: {"steps": request.function(**request.values())},
    )
