"""Asking what a pure function says, once for all visitors."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from explorer import library
from explorer.engine import caching

Answer = TypeVar("Answer")


@dataclass(frozen=True, eq=False)
class Request(Generic[Answer]):
    """A function and what it is asked.

    `key` says it shorter than `values()`, the arguments by name: of an opened model, or of all that
    happened in a run, it has a name, and it is all that is kept of them.
    """

    function: Callable[..., Answer]
    key: tuple[Hashable, ...]
    values: Callable[[], Mapping[str, Any]]


def ask(request: Request[Answer]) -> Answer:
    """What the function says, kept for everybody. Raises what the function raises."""
    function = request.function
    name = f"{function.__module__}.{function.__qualname__}"
    key = (name, str(library.CHECKPOINTS), *request.key)
    return caching.STORE.get(key, lambda: function(**request.values()))
