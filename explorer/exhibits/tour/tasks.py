"""All exercises, with the solved ones marked, to send."""

from explorer.analysis.exercises.tasks import tasks
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.exercises.asked import absent
from explorer.exhibits.tour import course
from explorer.exhibits.tour.contents import listed
from explorer.exhibits.tour.results import sent


def show(progress: course.CourseProgress, view: View) -> b.Blocks:
    """The tasks of each kind, and the link."""
    yield from absent(view)
    done = sum(name.startswith("task_") for name in progress.outcomes)
    yield b.Prose(view.t("exercises.progress", done=done, count=len(tasks())))
    yield b.ProgressBar(done / max(1, len(tasks())))
    yield listed(view, progress, "exercises")
    yield sent(view, "overview")


EXHIBIT = Exhibit(course.progress, show, inputs=course.SOLVED)
