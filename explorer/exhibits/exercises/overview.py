"""All tasks, with the solved ones marked, to print, and a link with the user's results."""

from typing import Any

from explorer.analysis.exercises.tasks import KINDS, tasks
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.exercises.choices import (
    MOST_CARRIED,
    MOST_NAME,
    ExercisesChoices,
    write_programs,
)
from explorer.exhibits.exercises.subject import absent
from explorer.exhibits.picking import toggle


def show(answer: None, view: View) -> b.Blocks:
    """The tasks of each kind, and the link."""
    yield from absent(view)
    known = {task.id for task in tasks()}
    done = len(known & set(view.choices(ExercisesChoices).solved))
    yield b.Prose(view.t("exercises.progress", done=done, count=len(known)))
    yield b.ProgressBar(done / max(1, len(known)))
    yield b.Pane([each for kind in KINDS for each in _of_kind(view, kind)])
    yield b.Pane((b.Title(view.t("exercises.send")), *_results(view)))
    made = view.choices(ExercisesChoices)
    yield toggle(view, "exercises.on_paper", made.on_paper)
    if made.on_paper:
        yield from _on_paper(view)


def _of_kind(view: View, kind: str) -> tuple[b.Block, ...]:
    solved = view.choices(ExercisesChoices).solved
    buttons = [
        b.Button(
            f"exercises.open.{task.id}",
            task.name[view.lang],
            b.choose(task=task.id, part="task"),
            "check_circle" if task.id in solved else "",
            quiet=True,
        )
        for task in tasks()
        if task.kind == kind
    ]
    return b.Title(view.t(f"exercises.groups.{kind}")), b.Row(buttons, "top")


def _results(view: View) -> b.Blocks:
    """A link with the user's name and programs."""
    made = view.choices(ExercisesChoices)
    yield b.TextBox(
        "exercises.solver",
        view.t("exercises.name"),
        made.solver,
        lambda name: b.choose(solver=name),
        most=MOST_NAME,
    )
    written = dict(made.programs) | dict(made.drafts)
    sent = tuple((name, written[name]) for name in made.solved if name in written)
    if len(write_programs(sent)) > MOST_CARRIED:
        yield b.Hint(view.t("exercises.too_much"), "warning", warns=True)
        return
    chosen: dict[str, Any] = {"part": "overview", "solver": made.solver, "solved": made.solved}
    yield b.Note(view.t("exercises.sent", count=len(sent)))
    yield b.Link(chosen | {"programs": sent})


def _on_paper(view: View) -> b.Blocks:
    """The tasks of each kind, numbered: description, formula, and space to write."""
    for kind in KINDS:
        yield b.Title(view.t(f"exercises.groups.{kind}"), large=True)
        for number, task in enumerate((each for each in tasks() if each.kind == kind), 1):
            asked = f"{task.text[view.lang]} {task.note[view.lang]}"
            yield b.Prose(f"**{number}. {task.name[view.lang]}** {asked}")
            yield b.Prose(f"${view.formula(task.formula)}$")
            yield b.Verbatim(task.signature if not task.bug else task.starter, "python")


EXHIBIT = Exhibit(None, show)
