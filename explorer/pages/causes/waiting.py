"""Runs long computations as jobs, with a progress bar and a stop button."""

from collections.abc import Hashable
from functools import partial
from typing import TypeVar

from explorer.engine import jobs
from explorer.engine.caching import Cached
from explorer.exhibits.view import View
from explorer.runs.activations import Activations
from explorer.runs.generation import StepsDone
from explorer.ui import running

Result = TypeVar("Result")


def is_whole(view: View) -> bool:
    """Whether the trace has all layers; if not, each layer is recomputed on demand."""
    kept = view.trace.activations
    return not isinstance(kept, Activations) or len(kept.kept) >= len(kept.parts)


def waited(
    view: View,
    name: str,
    function: Cached[..., Result],
    *asked: Hashable,
    at_once: bool = True,
) -> Result | None:
    """The result of a cached function of the run; None while computing or after a stop.

    Computed `at_once` if the trace is complete. Reraises exceptions of the function.
    """
    if function.is_kept(view.run, *asked) or (at_once and is_whole(view)):
        return function(view.run, *asked)

    def work(tell: StepsDone) -> Result:
        return partial(function, view.run, *asked)(progress=jobs.whole(tell))

    key = (view.run, *asked)
    return running.awaited(f"causes.{name}", key, work, view.t("causes.working"), view.lang)
