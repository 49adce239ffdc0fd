"""The open task, the user's program for it, its grade, and why no program can run."""

from explorer import sandbox
from explorer.analysis.exercises import grading
from explorer.analysis.exercises.grading import Grade
from explorer.analysis.exercises.tasks import Task, task_of, tasks
from explorer.engine.caching import cached
from explorer.engine.turns import waiting
from explorer.exhibits import View, block as b
from explorer.exhibits.exercises.choices import ExercisesChoices


def task_named(name: str) -> Task:
    """The task with this id; the first one for ""."""
    return task_of(name) or tasks()[0]


def opened(view: View) -> Task:
    """The open task."""
    return task_named(view.choices(ExercisesChoices).task)


def written(view: View) -> str | None:
    """The user's program for the open task, or the link's; None until it is edited or run."""
    choices = view.choices(ExercisesChoices)
    code = (dict(choices.programs) | dict(choices.drafts)).get(opened(view).id)
    return None if code is None else code.replace("\r\n", "\n")


def program(view: View) -> str:
    """What is in the editor: initially the starter code."""
    code = written(view)
    return opened(view).starter if code is None else code


def absent(view: View) -> b.Blocks:
    """Why no program can run here, if none can."""
    if not sandbox.available():
        yield b.Hero((b.Hint(view.t("exercises.absent"), "extension_off"),))


def _settled(grade: Grade | None) -> bool:
    """Whether the grade is reproducible: a timeout may be due to a busy machine."""
    return grade is not None and (grade.fault is None or grade.fault.kind not in ("time", "large"))


@cached(worth=_settled)
def graded(task: str, code: str | None) -> Grade | None:
    """Grade a program in a separate process, while other sessions compute; None without a program,
    or if none can run here. Cached for the task, the model test and the tour's class page, except
    what is not `worth` it."""
    if code is None or not sandbox.available():
        return None
    with waiting():
        return grading.grade(task_named(task), code)
