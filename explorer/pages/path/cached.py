"""What the path computes, kept as `ui.caching` says."""

from collections.abc import Callable
from typing import TypeVar

from explorer.library import LoadedModel
from explorer.runs.trace import Trace
from explorer.ui import cache
from explorer.ui.cache import Run
from explorer.ui.work.caching import cached

Found = TypeVar("Found")


@cached
def found(run: Run, find: Callable[[LoadedModel, Trace], Found]) -> Found:
    """What the function of a step finds in a run. Raises InputProblem."""
    return find(cache.open_model(run.model), cache.trace(run))
