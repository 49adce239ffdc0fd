"""The learner's results, and the link that sends them to a teacher."""

from collections.abc import Sequence

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.tour import course
from explorer.exhibits.tour.choices import MOST_NAME, TourChoices, one_line
from explorer.exhibits.tour.contents import lines
from explorer.exhibits.tour.steps import open_step


def show(answer: None, view: View) -> b.Blocks:
    """The number of right answers by chapter, and the steps to repeat."""
    yield from course.heading(view)
    named, known = course.steps_of_view(view), course.answers_of(view)
    right, count = _right(view, named)
    yield b.Title(view.t("tour.score_of", right=right, count=count, all=len(named)), large=True)
    rows = []
    for chapter in course.CHAPTERS:
        if inside := [step for step in named if course.chapter_of(step) == chapter]:
            counts = (*_right(view, inside), len(inside))
            rows.append([view.t(f"tour.groups.{chapter}"), *map(str, counts)])
    head = [view.t(f"tour.{name}") for name in ("chapter", "n_right", "n_given", "n_steps")]
    yield b.Table(head, rows)
    if wrong := [step for step in named if step in known and not known[step].right]:
        yield b.Title(view.t("tour.again"))
        yield lines(view, wrong, "again")
    elif count:
        yield b.Prose(view.t("tour.nothing_again"))
    if left := [step for step in named if step not in known]:
        label = view.t("tour.go_on", step=course.title_of(view, left[0]))
        yield b.Button("tour.go_on", label, open_step(left[0]), icon="arrow_forward")
    yield b.Title(view.t("tour.send"))
    yield b.Prose(view.t("tour.send_note"))
    tour, label = view.choices(TourChoices), view.t("tour.learner")
    more = b.More(most=MOST_NAME, width=320)
    yield b.TextBox("tour.learner", label, tour.learner, _named, **more)
    yield course.link_of(view, answers=tour.answers, learner=tour.learner, part="results")
    if count:
        again = b.choose(answers=(), lesson="")
        yield b.Button("tour.start_over", view.t("tour.start_over"), again, icon="restart_alt")


def _right(view: View, named: Sequence[str]) -> tuple[int, int]:
    """How many of these steps were answered right, and how many at all."""
    known = course.answers_of(view)
    outcomes = [known[step].right for step in named if step in known]
    return sum(outcomes), len(outcomes)


def _named(typed: str) -> b.Change:
    return b.choose(learner=one_line(typed, MOST_NAME))


EXHIBIT = Exhibit(None, show)
