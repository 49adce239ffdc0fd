"""What the guided tour computes, cached by `ui.caching`."""

from collections.abc import Callable
from typing import TypeVar

from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached
from explorer.library import LoadedModel
from explorer.runs.trace import Trace

Found = TypeVar("Found")


@cached
def found(run: Run, find: Callable[[LoadedModel, Trace], Found]) -> Found:
    """The result of a step's function on a run. Raises InputProblem."""
    return find(cache.open_model(run.model), cache.trace(run))
