"""The open task, the user's program for it, its grade, and why no program can run."""

from explorer import sandbox
from explorer.analysis.exercises.tasks import Task
from explorer.engine.exercises import task_named
from explorer.exhibits import View, block as b
from explorer.exhibits.exercises.choices import ExercisesChoices


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
