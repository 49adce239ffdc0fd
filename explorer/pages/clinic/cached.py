"""What the Clinic computes, kept as `ui.caching` says."""

from explorer.analysis.clinic import PITFALLS, Symptom
from explorer.analysis.clinic import symptom as planted
from explorer.ui import cache
from explorer.ui.cache import Run
from explorer.ui.caching import cached


@cached
def symptom(run: Run, case: str) -> Symptom:
    """A fault of the clinic planted into a run's model. Raises InputProblem."""
    pitfall = next(each for each in PITFALLS if each.id == case)
    return planted(cache.open_model(run.model), cache.trace(run), pitfall)
