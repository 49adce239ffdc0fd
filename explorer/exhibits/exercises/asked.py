"""A task: its description, the editor for its program, the verdict, hints and the solution."""

from typing import Any

from explorer import sandbox
from explorer.analysis.exercises.grading import Grade, grade
from explorer.analysis.exercises.tasks import KINDS, Task, task_of, tasks
from explorer.engine.exercises import graded, task_named
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.exercises.answer import numbers, picture
from explorer.exhibits.exercises.choices import ExercisesChoices
from explorer.exhibits.exercises.said import reading_of
from explorer.exhibits.links import State
from explorer.exhibits.picking import pick_one
from explorer.exhibits.saying import in_a_row


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


def show(result: Grade | None, view: View) -> b.Blocks:
    """The choice of a task, the task with its editor, and its picture beside it; a program that
    passes is noted in the link."""
    yield from absent(view)
    task, choices = opened(view), view.choices(ExercisesChoices)
    if result is not None and result.passed and task.id not in choices.solved:
        yield b.Remember(b.choose(solved=(*choices.solved, task.id)))
    verdict = () if result is None else _verdict(view, task, result)
    n_hints = dict(choices.helped).get(task.id, 0)
    asks = (*_task(view, task), *_editor(view, task), *verdict, *_help(view, task, n_hints))
    sides = b.Columns((asks, tuple(picture(view, task, result))), (5, 6))
    yield b.Hero((b.Row((*_pick(view, task),)), sides))
    if (code := dict(choices.drafts).get(task.id)) is not None:
        chosen: dict[str, Any] = {"task": task.id, "part": "task", "programs": ((task.id, code),)}
        yield b.Link(chosen, "exercises.qr", view.t("exercises.share_code"))
    formula = task.formula
    if task.is_given_away and n_hints < 3:
        formula = r"m_{qk} \in \{0,\,1\}" if task.is_mask else r"s_{qk} + b_{qk}"
    yield b.Formula((formula,), view.t("exercises.formula") if "m_{qk}" in formula else "")
    yield b.Code((task_of,) if result is None else (grade, sandbox.run))
    yield b.Numbers(lambda: numbers(view, task, result))


def _pick(view: View, task: Task) -> b.Blocks:
    groups: dict[str, list[str]] = {
        kind: [exercise.id for exercise in tasks() if exercise.kind == kind] for kind in KINDS
    }
    kinds = b.More(change=lambda kind: b.choose(task=groups[kind][0]))
    yield pick_one(view, "exercises.group", KINDS, task.kind, **kinds)
    names = {exercise.id: exercise.name[view.lang] for exercise in tasks()}
    solved = view.choices(ExercisesChoices).solved
    more = b.More(said=lambda name: names[name] + ("  ✓" if name in solved else ""), form="menu")
    yield pick_one(view, "exercises.task", groups[task.kind], task.id, width=340, **more)


def _task(view: View, task: Task) -> b.Blocks:
    yield b.Title(task.text[view.lang])
    if task.bug:
        label = view.t("exercises.pitfall", title=view.t("cases", task.bug, "title"))
        change = b.choose(visit="cases", part="bugs", case=task.bug)
        yield b.Button("exercises.bug", label, change, "stethoscope", kind="quiet")
    if not task.is_given_away:
        yield b.Prose(f"${view.formula(task.formula)}$")
    if task.note[view.lang]:
        yield b.Prose(task.note[view.lang])


def _editor(view: View, task: Task) -> b.Blocks:
    """The program, and buttons to run it and to return to the starter code."""

    def keep(code: str) -> b.Change:
        return b.Change(lambda state: {"drafts": _with(state, task, code)})

    def run(state: State) -> dict[str, Any]:
        # The browser sends the text as soon as the button takes the focus.
        typed = dict(state.of(ExercisesChoices).drafts).get(task.id, code)
        return {"drafts": _with(state, task, typed)}

    def restart(state: State) -> dict[str, Any]:
        own = state.of(ExercisesChoices)
        kept = {"drafts": own.drafts, "programs": own.programs}
        return {name: tuple(p for p in of if p[0] != task.id) for name, of in kept.items()}

    code, is_off = program(view), not sandbox.available()
    signature = task.signature.removeprefix("def ").rstrip(":")
    editor = b.TextBox(
        f"exercises.code.{task.id}",
        view.t("exercises.editor", signature=signature),
        code,
        keep,
        max(120, 28 * (code.count("\n") + 3)),
        sandbox.MOST_CHARACTERS,
        b.Display(disabled=is_off),
    )
    yield b.Pane((editor,), key="exercises-editor")
    words = view.t("exercises.run"), view.t("exercises.restart")
    runs = b.Button("exercises.run", words[0], b.Change(run), "play_arrow", "primary", is_off)
    resets = b.Button("exercises.restart", words[1], b.Change(restart), kind="quiet")
    yield b.Row((runs, *([resets] if written(view) is not None else [])), "center")


def _with(state: State, task: Task, code: str) -> tuple[tuple[str, str], ...]:
    """The user's programs with a new one for a task."""
    return tuple({**dict(state.of(ExercisesChoices).drafts), task.id: code}.items())


def _verdict(view: View, task: Task, result: Grade) -> b.Blocks:
    """The main sentence about a program, the others, and what the program printed."""
    first, *others = reading_of(view, task, result)
    yield b.Sentence("exercises", first)
    if others:
        yield b.Prose(in_a_row(others))
    if result.printed:
        yield b.Note(view.t("exercises.printed"))
        yield b.Verbatim(result.printed)


def _help(view: View, task: Task, shown: int) -> b.Blocks:
    """Three hints, one after another, and the solution, each on request."""
    for number, hint in enumerate(task.hints[view.lang][:shown], 1):
        formula = f" ${view.formula(task.formula)}$" if number > 2 and task.is_given_away else ""
        label = view.t("exercises.hint", n=number)
        yield b.Prose(f":material/lightbulb: **{label}** {hint}{formula}")
    if shown > 3:
        yield b.Prose(f"**{view.t('exercises.solution')}** {task.solution[view.lang]}")
        yield b.Verbatim(task.reference, "python")
        return
    label = view.t("exercises.hint_ask", n=shown + 1) if shown < 3 else view.t("exercises.give_up")
    helped = {**dict(view.choices(ExercisesChoices).helped), task.id: shown + 1}
    more = b.choose(helped=tuple(helped.items()))
    yield b.Button("exercises.more_help", label, more, "lightbulb")


INPUTS = {"task": lambda view: opened(view).id, "code": written}
EXHIBIT = Exhibit(graded, show, inputs=INPUTS)
