"""A printable sheet: its steps with pictures, questions and checkboxes."""

from explorer.engine.cache import Run
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.picking import toggle
from explorer.exhibits.tour.asked import Missing, Posed, PosedStep, asked, found_by
from explorer.exhibits.tour.choices import TourChoices
from explorer.exhibits.tour.course import STEPS, chapter_of, heading, opened, steps_of, title_of
from explorer.exhibits.tour.steps import lead
from explorer.runs.passes import Steps

LETTERS = "ABCD"


def compute(run: Run, lesson: str, sheet: tuple[str, ...]) -> Steps[dict[str, Posed | Missing]]:
    """What each step of the sheet, else of the open chapter, finds in a run.

    Yields the steps done and their number. Raises InputProblem.
    """
    posed: dict[str, Posed | Missing] = {}
    chapter = chapter_of(opened(lesson, sheet))
    named = [step for step in steps_of(sheet) if sheet or chapter_of(step) == chapter]
    for step in named:
        if (yield len(posed), len(named)) is False:
            break
        posed[step] = found_by(run, STEPS[step])
    return posed


def show(found: dict[str, Posed | Missing], view: View) -> b.Blocks:
    """The sheet, and the solutions if the teacher wants them."""
    yield from heading(view)
    solved = view.choices(TourChoices).solutions
    switch = toggle(view, "tour.solutions", solved)
    yield b.Pane((b.Prose(view.t("tour.printed_lead")), switch), key="tour-noprint")
    yield b.Prose(view.t("tour.name_line"))
    yield b.SentenceLine()
    posed = {step: asked(view, STEPS[step], answer) for step, answer in found.items()}
    for step, one in posed.items():
        yield b.Pane(tuple(_on_paper(view, step, one)), key=f"tour-paper-{step}")
    if solved:
        yield b.Title(view.t("tour.solved"))
        lines = (f"- {title_of(view, step)}: {_solution(one)}" for step, one in posed.items())
        yield b.Prose("\n".join(lines))


def _on_paper(view: View, step: str, posed: PosedStep | Missing) -> b.Blocks:
    yield b.Title(title_of(view, step))
    yield b.Prose(lead(view, step))
    if isinstance(posed, Missing):
        yield b.Prose(view.t(f"tour.missing.{posed.why}"))
        return
    yield from posed.picture(False)
    yield b.Title(view.t(f"tour.steps.{step}.ask", **posed.values))
    boxes = zip(LETTERS, posed.question.options, strict=False)
    yield b.Prose("  \n".join(f"☐ {letter}. {option}" for letter, option in boxes))


def _solution(posed: PosedStep | Missing) -> str:
    if isinstance(posed, Missing):
        return "–"
    return f"{LETTERS[posed.question.right]}. {posed.question.answer}"


EXHIBIT = Exhibit(compute, show)
