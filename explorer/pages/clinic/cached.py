"""What the Clinic page computes, cached by `engine.caching`."""

from collections.abc import Callable

from explorer.analysis.clinic import PITFALLS, Symptom
from explorer.analysis.clinic import symptom as planted
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached


@cached
def symptom(
    run: Run, case: str, *, progress: Callable[[int, int], object] | None = None
) -> Symptom:
    """A bug injected into a run's model; `progress` gets the number of generated tokens.

    Raises InputProblem.
    """
    tell = progress or (lambda done, total: None)
    pitfall = next(each for each in PITFALLS if each.id == case)
    return planted(cache.open_model(run.model), cache.trace(run), pitfall, tell)
