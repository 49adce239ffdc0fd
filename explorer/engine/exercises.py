"""Exercises: a program graded, and put into a model as its mask."""

from dataclasses import dataclass
from typing import Literal

from explorer import sandbox
from explorer.analysis.cases.symptom import Symptom
from explorer.analysis.exercises import grading
from explorer.analysis.exercises.grading import Grade
from explorer.analysis.exercises.planted import PlantedError, findings_under, output_under
from explorer.analysis.exercises.tasks import Task, task_of, tasks
from explorer.analysis.mask_tests.certify import Finding
from explorer.engine.cache import Run, open_model, trace
from explorer.engine.caching import cached
from explorer.engine.turns import waiting
from explorer.runs.passes import Steps, walked
from explorer.sandbox import Fault


def task_named(name: str) -> Task:
    """The task with this id; the first one for ""."""
    return task_of(name) or tasks()[0]


def _settled(grade: Grade | None) -> bool:
    """Whether the grade is reproducible: a timeout may be due to a busy machine."""
    return grade is not None and (grade.fault is None or grade.fault.kind not in ("time", "large"))


@cached(worth=_settled)
def graded(task: str, code: str | None) -> Grade | None:
    """Grade a program in a separate process, while other sessions compute; None without a program,
    or if none can run here."""
    if code is None or not sandbox.available():
        return None
    with waiting():
        return grading.grade(task_named(task), code)


Program = tuple[str, str]
"""A task and a program for it."""
Status = Literal["", "no_place", "plant"]
"""Why no program is put into the model: there is no mask, no place for it, or no request yet."""


@dataclass(frozen=True, eq=False)
class Trial:
    """The properties under the user's mask and under the right one, and the changed output."""

    own: tuple[Finding, ...]
    right: tuple[Finding, ...]
    symptom: Symptom


@cached
def examined(run: Run, program: Program) -> tuple[Finding, ...]:
    """The properties of a run's model with a program's mask; takes ten seconds. Raises PlantedError
    if the program fails, and InputProblem."""
    loaded, traced = open_model(run.model), trace(run)
    return walked(findings_under(task_named(program[0]), program[1], loaded, traced))


@cached(worth=lambda trial: not isinstance(trial, Fault))
def tried(plain: Run, wanted: Program | Status) -> Steps[Trial | Fault | Status]:
    """A program's mask in the model without edits. Cached except its fault if it fails there, which
    may be a timeout of a busy machine. Raises InputProblem."""
    if isinstance(wanted, str):
        return wanted
    task = task_named(wanted[0])
    try:
        yield 0, 3
        own = examined(plain, wanted)
        yield 1, 3
        right = examined(plain, (task.id, task.reference))
        yield 2, 3
        changed = output_under(task, wanted[1], open_model(plain.model), trace(plain))
        return Trial(own, right, walked(changed))
    except PlantedError as problem:
        fault: Fault = problem.args[0]
        return fault
