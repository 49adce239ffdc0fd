"""A printable sheet: its entries with pictures, questions and checkboxes."""

from collections.abc import Iterable

from explorer.analysis.exercises.tasks import Task, task_of
from explorer.engine.cache import Run
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.picking import toggle
from explorer.exhibits.tour.choices import TourChoices
from explorer.exhibits.tour.course import ENTRIES, GROUPS, STEPS, heading, opened, title_of
from explorer.exhibits.tour.posed import Missing, PosedStep, found_by
from explorer.exhibits.tour.steps import lead
from explorer.runs.passes import Steps

LETTERS = "ABCD"
Printed = dict[str, PosedStep | Missing | None]


def compute(run: Run, lang: str, lesson: str, sheet: tuple[str, ...]) -> Steps[Printed]:
    """The entries of the sheet, else of the open chapter, and what each step asks about a run.

    Yields the entries done and their number. Raises InputProblem.
    """
    posed: Printed = {}
    chapter = GROUPS[ENTRIES[opened(lesson, sheet)].group]
    named = [name for name in sheet if name in ENTRIES] or [entry.id for entry in chapter]
    for name in named:
        if (yield len(posed), len(named)) is False:
            break
        posed[name] = found_by(run, lang, STEPS[name]) if name in STEPS else None
    return posed


def show(printed: Printed, view: View) -> b.Blocks:
    """The sheet, and the solutions if the teacher wants them."""
    yield from heading(view)
    solved = view.choices(TourChoices).solutions
    switch = toggle(view, "tour.solutions", solved)
    lead_in = b.Pane((b.Prose(view.t("tour.printed_lead")), switch), key="tour-noprint")
    sheet: list[b.Block] = [lead_in, b.Prose(view.t("tour.name_line")), b.SentenceLine()]
    solutions = []
    for name, posed in printed.items():
        on_paper, solution = _entry(view, name, posed)
        sheet.append(b.Pane((b.Title(title_of(view, name)), *on_paper), key=f"tour-paper-{name}"))
        solutions.append(f"- {title_of(view, name)}: {solution}")
    if solved:
        sheet += [b.Title(view.t("tour.solved")), b.Prose("\n".join(solutions))]
    yield b.Hero(sheet)


def _entry(view: View, name: str, posed: PosedStep | Missing | None) -> tuple[list[b.Block], str]:
    """An entry on paper, and its solution; "–" if there is none here."""
    kind, _, id = name.partition("_")
    if kind == "task" and (task := task_of(id)):
        return [*_task_on_paper(view, task)], task.solution[view.lang]
    assert posed is not None
    introduction = b.Prose(lead(view, name))
    if isinstance(posed, Missing):
        return [introduction, b.Prose(view.t("tour.missing", posed.why))], "–"
    asks, question = view.t("tour.steps", name, "ask", **posed.values), posed.question
    words = introduction, b.Title(asks), _boxes(question.options)
    sides = b.Columns((tuple(posed.picture(view, False)), words), widths=(3, 2))
    return [sides], f"{LETTERS[question.right]}. {question.answer}"


def _task_on_paper(view: View, task: Task) -> b.Blocks:
    """A task: description, formula, and the line or the program to begin with."""
    yield b.Prose(f"{task.text[view.lang]} {task.note[view.lang]}")
    if not task.is_given_away:
        yield b.Prose(f"${view.formula(task.formula)}$")
    yield b.Verbatim(task.signature if not task.bug else task.starter, "python")


def _boxes(options: Iterable[str]) -> b.Prose:
    boxes = zip(LETTERS, options, strict=False)
    return b.Prose("  \n".join(f"☐ {letter}. {option}" for letter, option in boxes))


EXHIBIT = Exhibit(compute, show)
