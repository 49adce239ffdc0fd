"""All exercises, with the solved ones marked, to send and to print."""

from explorer.analysis.exercises.tasks import tasks
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.exercises.choices import ExercisesChoices
from explorer.exhibits.exercises.subject import absent
from explorer.exhibits.picking import toggle
from explorer.exhibits.tour import course
from explorer.exhibits.tour.contents import listed
from explorer.exhibits.tour.printed import task_on_paper
from explorer.exhibits.tour.results import sent


def show(answer: None, view: View) -> b.Blocks:
    """The tasks of each kind, the link, and the tasks written out."""
    yield from absent(view)
    done = sum(name.startswith("task_") for name in course.outcomes(view))
    yield b.Prose(view.t("exercises.progress", done=done, count=len(tasks())))
    yield b.ProgressBar(done / max(1, len(tasks())))
    yield listed(view, "exercises")
    yield sent(view, "overview")
    on_paper = view.choices(ExercisesChoices).on_paper
    yield toggle(view, "exercises.on_paper", on_paper)
    for task in tasks() if on_paper else ():
        title = b.Title(course.title_of(view, f"task_{task.id}"))
        yield b.Pane((title, *task_on_paper(view, task)))


EXHIBIT = Exhibit(None, show)
