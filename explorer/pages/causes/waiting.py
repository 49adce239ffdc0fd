"""What may take long is computed beside the page, with its progress and a button to stop it."""

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
    """Whether the run is at hand as a whole; else each layer is computed again when it is asked."""
    kept = view.trace.activations
    return not isinstance(kept, Activations) or len(kept.kept) >= len(kept.parts)


def waited(
    view: View,
    name: str,
    function: Cached[..., Result],
    *asked: Hashable,
    at_once: bool = True,
) -> Result | None:
    """What a cached function of the run gives; None while it is computed, or once it was stopped.

    Computed `at_once` where the run is whole. Raises what the function raises.
    """
    if function.is_kept(view.run, *asked) or (at_once and is_whole(view)):
        return function(view.run, *asked)

    def work(tell: StepsDone) -> Result:
        return partial(function, view.run, *asked)(progress=jobs.whole(tell))

    key = (view.run, *asked)
    return running.awaited(f"causes.{name}", key, work, view.t("causes.working"), view.lang)
