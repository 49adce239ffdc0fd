"""What the workshop computes, cached by `engine.caching`."""

from collections.abc import Callable

from explorer.analysis.certificate.certify import Finding
from explorer.analysis.clinic import Symptom
from explorer.analysis.workshop import grading, planted
from explorer.analysis.workshop.grading import Grade
from explorer.analysis.workshop.tasks import Task, task_of
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached
from explorer.engine.turns import waiting


def _task(name: str) -> Task:
    found = task_of(name)
    assert found is not None, name
    return found


def _settled(made: Grade) -> bool:
    """Whether the grade is reproducible: a timeout may be due to a busy machine."""
    return made.fault is None or made.fault.kind not in ("time", "large")


@cached(worth=_settled)
def graded(task: str, code: str) -> Grade:
    """Grade a program in a separate process, while other sessions compute.

    Raises FileNotFoundError if the optional package is missing.
    """
    with waiting():
        return grading.grade(_task(task), code)


@cached
def examined(
    run: Run, task: str, code: str, *, progress: Callable[[int, int], object] | None = None
) -> tuple[Finding, ...]:
    """The promises of a run's model with a program's mask.

    Raises planted.PlantedError if the program fails, and InputProblem.
    """
    loaded, traced = cache.open_model(run.model), cache.trace(run)
    return planted.examined(_task(task), code, loaded, traced, progress or _silent)


@cached
def written(
    run: Run, task: str, code: str, *, progress: Callable[[int, int], object] | None = None
) -> Symptom:
    """The output of a run's model with and without a program's mask. Raises as `examined`."""
    loaded, traced = cache.open_model(run.model), cache.trace(run)
    return planted.written(_task(task), code, loaded, traced, progress or _silent)


def _silent(done: int, total: int) -> None:
    """A progress callback that does nothing."""
