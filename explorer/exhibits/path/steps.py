"""The open step of the tour, with the controls that lead to the others."""

from collections.abc import Iterator, Sequence
from typing import Any

from explorer.engine.cache import Run
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.path import course
from explorer.exhibits.path.asked import PosedStep, Step, asked, found_by
from explorer.exhibits.path.choices import PathChoices
from explorer.exhibits.path.found import Missing
from explorer.exhibits.path.lesson import lesson
from explorer.exhibits.picking import pick_one

SIGNS = {True: "✓", False: "✗"}


def compute(run: Run, lesson: str, sheet: tuple[str, ...]) -> Any:
    """What the open step finds in a run, or `Missing`. Raises InputProblem."""
    return found_by(run, course.STEPS[course.opened(lesson, sheet)])


def show(found: Any, view: View) -> b.Blocks:
    """The step, and the way to others."""
    made = view.choices(PathChoices)
    step, inside = course.STEPS[course.opened(made.lesson, made.sheet)], course.steps_of_view(view)
    if not made.sheet:
        chapter = course.chapter_of(step.id)
        yield _pick_chapter(view, chapter)
        inside = tuple(each.id for each in course.CHAPTERS[chapter])
    yield _pick_step(view, inside, step.id)
    yield b.SentenceLine()
    posed = asked(view, step, found)
    yield b.Hero(tuple(lesson(view, step, posed)))
    known = None if isinstance(posed, Missing) else posed
    yield b.Row(tuple(_onward(view, step, known)), align="center")
    yield b.Formula((step.formula,), view.t("path.formula"))
    yield b.Code((step.find,))
    yield b.Numbers(lambda: _numbers(view, step, known))


def open_step(step: str) -> b.Change:
    """The change that opens a step."""
    return b.choose(lesson=step, part="steps")


def _pick_chapter(view: View, now: str) -> b.Pick:
    more = b.More(change=lambda name: open_step(course.CHAPTERS[name][0].id), quiet=True)
    return pick_one(view, "path.chapter", tuple(course.CHAPTERS), now, said="path.groups.", **more)


def _pick_step(view: View, inside: Sequence[str], now: str) -> b.Pick:
    """The control for the steps of a chapter or sheet, by number, with the result of each."""
    made = view.choices(PathChoices)

    def label(step: str) -> str:
        given = made.answered(step)
        return course.number_of(step) + ("" if given is None else f" {SIGNS[given.right]}")

    return pick_one(view, "path.step", inside, now, said=label, change=open_step, quiet=True)


def _onward(view: View, step: Step, posed: PosedStep | None) -> Iterator[b.Button]:
    """Buttons for the previous and next step, and for the pages for further exploration."""
    named = course.steps_of_view(view)
    at, chapter = named.index(step.id), course.chapter_of(step.id)
    before, last = open_step(named[max(0, at - 1)]), at + 1 == len(named)
    yield b.Button("path.back", view.t("path.back"), before, icon="arrow_back", disabled=at == 0)
    if last:
        results = b.choose(part="results")
        yield b.Button("path.next", view.t("path.finish"), results, icon="flag")
    else:
        following = open_step(named[at + 1])
        yield b.Button("path.next", view.t("path.next"), following, icon="arrow_forward")
    label = view.t("path.alone", page=view.t(f"{step.page}.title"))
    away = b.choose(visit=step.page, **place_of(posed))
    yield b.Button("path.alone", label, away, icon="explore", quiet=True)
    if step == course.CHAPTERS[chapter][-1]:
        task = b.choose(visit="workshop", task=course.TASK_OF[chapter], part="task")
        label = view.t("path.write_it")
        yield b.Button("path.write", label, task, icon="construction", quiet=True)


def place_of(posed: PosedStep | None) -> dict[str, Any]:
    """The choices with which the page of a step opens, with the unedited model."""
    return {"edits": (), "pads": None, "part": "", "key": None} | dict(posed.place if posed else {})


def _numbers(view: View, step: Step, posed: PosedStep | None) -> dict[str, list[str]]:
    if posed is None:
        return {view.t("path.step"): [course.number_of(step.id)]}
    question, given = posed.question, view.choices(PathChoices).answered(step.id)
    right = [""] * len(question.options)
    if given is not None and given.mark == question.mark:
        right[question.right] = "✓"
    return {view.t("path.options"): list(question.options), view.t("path.n_right"): right}


EXHIBIT = Exhibit(compute, show)
