"""The learner's results, and the link that sends them to a teacher."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.exercises.choices import MOST_CARRIED, ExercisesChoices, write_programs
from explorer.exhibits.tour import course
from explorer.exhibits.tour.choices import MOST_NAME, TourChoices, one_line
from explorer.exhibits.tour.contents import lines


def show(progress: course.CourseProgress, view: View) -> b.Blocks:
    """The number of right answers by group, and the entries to repeat."""
    yield from course.heading(view)
    named, known = progress.entries, progress.outcomes
    right = sum(known.get(entry, False) for entry in named)
    count = sum(entry in known for entry in named)
    key = "tour.score_of" if count else "tour.no_answer"
    yield b.Title(view.t(key, right=right, count=count, all=len(named)), large=True)
    rows = []
    for group, entries in course.GROUPS.items():
        if inside := [item.id for item in entries if item.id in named]:
            outcomes = [known[entry] for entry in inside if entry in known]
            counts = (sum(outcomes), len(outcomes), len(inside))
            rows.append([course.group_title(view, group), *map(str, counts)])
    head = [*map(view.t, ("tour.chapter", "tour.n_right", "tour.n_given", "tour.n_steps"))]
    yield b.Table(head, rows)
    if wrong := [entry for entry in named if not known.get(entry, True)]:
        yield b.Pane((b.Title(view.t("tour.again")), lines(view, progress, wrong, "again")))
    elif count:
        yield b.Prose(view.t("tour.nothing_again"))
    if left := [entry for entry in named if entry not in known]:
        label = view.t("tour.go_on", step=course.title_of(view, left[0]))
        yield b.Button("tour.go_on", label, course.ENTRIES[left[0]].opens, icon="arrow_forward")
    yield sent(view, "results")
    if count:
        again = b.choose(answers=(), lesson="")
        yield b.Button("tour.start_over", view.t("tour.start_over"), again, icon="restart_alt")


def sent(view: View, part: str) -> b.Pane:
    """The learner's name, and a link to this part with all results and the programs that solve
    tasks."""
    return b.Pane((b.Title(view.t("tour.send")), *_link(view, part)))


def _link(view: View, part: str) -> b.Blocks:
    tour, tasks = view.choices(TourChoices), view.choices(ExercisesChoices)
    learner = tour.learner or tasks.solver
    yield b.Prose(view.t("tour.send_note"))
    label, display = view.t("tour.learner"), b.Display(320)
    yield b.TextBox("tour.learner", label, learner, _named, most=MOST_NAME, display=display)
    written = dict(tasks.programs) | dict(tasks.drafts)
    programs = tuple((name, written[name]) for name in tasks.solved if name in written)
    if len(write_programs(programs)) > MOST_CARRIED:
        yield b.Hint(view.t("exercises.too_much"), "warning", warns=True)
        return
    work = {"answers": tour.answers, "solved": tasks.solved, "programs": programs}
    yield course.link_of(view, part=part, learner=learner, **work)
    if tasks.solved:
        yield b.Note(view.t("exercises.sent", count=len(programs)))


def _named(typed: str) -> b.Change:
    return b.choose(learner=one_line(typed, MOST_NAME), solver="")


EXHIBIT = Exhibit(course.progress, show, inputs=course.SOLVED)
