"""The learner's results, and the link that sends them to a teacher."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.tour import course
from explorer.exhibits.tour.choices import MOST_NAME, TourChoices
from explorer.exhibits.tour.contents import lines
from explorer.exhibits.tour.steps import open_step


def show(answer: None, view: View) -> b.Blocks:
    """The number of right answers by chapter, and the steps to repeat."""
    yield from course.heading(view)
    named, known = course.steps_of_view(view), course.answers_of(view)
    given = [known[step] for step in named if step in known]
    right = sum(each.right for each in given)
    words = {"right": right, "count": len(given), "all": len(named)}
    yield b.Title(view.t("tour.score_of", **words), large=True)
    yield _by_chapter(view)
    wrong = [step for step in named if step in known and not known[step].right]
    if wrong:
        yield b.Title(view.t("tour.again"))
        yield lines(view, wrong, "again")
    elif given:
        yield b.Prose(view.t("tour.nothing_again"))
    left = [step for step in named if step not in known]
    if left:
        label = view.t("tour.go_on", step=course.title_of(view, left[0]))
        yield b.Button("tour.go_on", label, open_step(left[0]), icon="arrow_forward")
    yield from _send(view)
    if given:
        again = b.choose(answers=(), lesson="")
        yield b.Button("tour.start_over", view.t("tour.start_over"), again, icon="restart_alt")


def _by_chapter(view: View) -> b.Table:
    named, known = course.steps_of_view(view), course.answers_of(view)
    rows = []
    for name in course.CHAPTERS:
        inside = [step for step in named if course.chapter_of(step) == name]
        answered = [known[step] for step in inside if step in known]
        if inside:
            counts = (sum(each.right for each in answered), len(answered), len(inside))
            rows.append([view.t(f"tour.groups.{name}"), *map(str, counts)])
    head = [view.t(f"tour.{name}") for name in ("chapter", "n_right", "n_given", "n_steps")]
    return b.Table(head, rows)


def _send(view: View) -> b.Blocks:
    """A name field, and the link with the answers."""
    yield b.Title(view.t("tour.send"))
    yield b.Prose(view.t("tour.send_note"))
    yield b.TextBox(
        "tour.learner",
        view.t("tour.learner"),
        view.choices(TourChoices).learner,
        lambda typed: b.choose(learner=" ".join(typed.split())),
        most=MOST_NAME,
        width=320,
    )
    made = view.choices(TourChoices)
    yield course.link_of(view, answers=made.answers, learner=made.learner, part="results")


EXHIBIT = Exhibit(None, show)
