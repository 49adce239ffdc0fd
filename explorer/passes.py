"""Between two passes of a model others may go first: in a process that computes for many, whoever
computes long is asked to let them, and where that must not be says so.

Both are kept in a `ContextVar`, so they belong to one thread only, as a visitor does. Whoever
imports this module has every model of the process announce its passes.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from models.transformer import Stack

_let_others: ContextVar[Callable[[], None] | None] = ContextVar("let_others", default=None)


@contextmanager
def before_passes(do: Callable[[], None] | None) -> Iterator[None]:
    """Call this before each pass of a model inside the block; None: nothing."""
    token = _let_others.set(do)
    try:
        yield
    finally:
        _let_others.reset(token)


def undisturbed() -> AbstractContextManager[None]:
    """A block in which nobody goes first: it is timed, or holds what others would wait for."""
    return before_passes(None)


def give_way() -> None:
    """A pass is about to begin: let others go first, where the caller's thread was told to."""
    do = _let_others.get()
    if do is not None:
        do()


Stack.before_pass = staticmethod(give_way)
