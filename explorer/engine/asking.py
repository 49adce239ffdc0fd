"""Asking what a pure function says, once for all visitors: at once, or step by step."""

import inspect
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from explorer import library
from explorer.engine import caching
from explorer.engine.jobs import walked

Answer = TypeVar("Answer")
Tell = Callable[[int, int], Any]


@dataclass(frozen=True, eq=False)
class Request(Generic[Answer]):
    """A function and what it is asked.

    `key` says it shorter than `values()`, the arguments by name: of an opened model, or of all that
    happened in a run, it has a name, and it is all that is kept of them. A generator function
    `takes_long`: it yields (done, total) on the way to its answer, which it returns.
    """

    function: Callable[..., Any]
    key: tuple[Hashable, ...]
    values: Callable[[], Mapping[str, Any]]

    @property
    def takes_long(self) -> bool:
        """Whether others should not wait for it, nor whoever asked without seeing how far it is."""
        return inspect.isgeneratorfunction(self.function)

    @property
    def address(self) -> tuple[Hashable, ...]:
        """What the answer is kept under."""
        name = f"{self.function.__module__}.{self.function.__qualname__}"
        return (name, str(library.CHECKPOINTS), *self.key)


def is_answered(request: Request[Any]) -> bool:
    """Whether the answer is at hand."""
    return request.address in caching.STORE


def ask(request: Request[Answer], tell: Tell | None = None) -> Answer:
    """What the function says, kept for everybody. Raises what the function raises.

    `tell(done, total)` hears how far it is; its answer False ends it with StoppedError.
    """
    if not request.takes_long:
        return caching.STORE.get(request.address, lambda: request.function(**request.values()))
    told = [True]

    def hear(done: int, total: int) -> bool:
        told[0] = tell is None or tell(done, total) is not False
        return told[0]

    return caching.STORE.get(
        request.address,
        lambda progress=hear: walked(request.function(**request.values()), progress),
        hear,
        worth=lambda answer: told[0],  # what was stopped may be a part
    )
