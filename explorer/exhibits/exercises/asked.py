"""A task: its description, the editor for its program, hints and the solution."""

from typing import Any

from explorer import sandbox
from explorer.analysis.exercises.tasks import KINDS, Task, tasks
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.exercises.choices import ExercisesChoices
from explorer.exhibits.exercises.subject import absent, opened, program
from explorer.exhibits.links import State
from explorer.exhibits.picking import pick_group, pick_one


def show(answer: None, view: View) -> b.Blocks:
    """The choice of a task, then the task; its picture is above both (`answer`)."""
    yield from absent(view)
    task = opened(view)
    yield from _pick(view, task)
    yield b.Columns(((*_task(view, task), *_editor(view, task), *_help(view, task)), ()), (5, 7))
    code = dict(view.choices(ExercisesChoices).drafts).get(task.id)
    if code is not None:
        chosen: dict[str, Any] = {"task": task.id, "part": "task", "programs": ((task.id, code),)}
        yield b.Link(chosen, "exercises.qr", view.t("exercises.share_code"))
    legend = view.t("exercises.formula") if "m_{qk}" in task.formula else ""
    yield b.Formula((task.formula,), legend)


def _pick(view: View, task: Task) -> b.Blocks:
    groups: dict[str, list[str]] = {
        kind: [exercise.id for exercise in tasks() if exercise.kind == kind] for kind in KINDS
    }
    yield pick_group(view, "exercises.group", groups, task.kind, lambda name: b.choose(task=name))
    names = {exercise.id: exercise.name[view.lang] for exercise in tasks()}
    solved = view.choices(ExercisesChoices).solved
    more = b.More(said=lambda name: names[name] + ("  ✓" if name in solved else ""), form="menu")
    yield pick_one(view, "exercises.task", groups[task.kind], task.id, quiet=True, **more)


def _task(view: View, task: Task) -> b.Blocks:
    yield b.Title(task.text[view.lang])
    if task.bug:
        label = view.t("exercises.pitfall", title=view.t(f"cases.{task.bug}.title"))
        change = b.choose(visit="cases", part="bugs", case=task.bug)
        yield b.Button("exercises.bug", label, change, "stethoscope", kind="quiet")
    yield b.Prose(f"${view.formula(task.formula)}$")
    if task.note[view.lang]:
        yield b.Prose(task.note[view.lang])


def _editor(view: View, task: Task) -> b.Blocks:
    """The program, and buttons to run it and to return to the starter code."""

    def keep(code: str) -> b.Change:
        return b.Change(lambda state: {"drafts": _with(state, task, code)})

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
    # The browser sends the text as soon as the button takes the focus; a click changes nothing.
    run = b.Button(
        "exercises.run",
        view.t("exercises.run"),
        b.choose(),
        "play_arrow",
        kind="primary",
        disabled=is_off,
    )
    restart = b.Button(
        "exercises.restart", view.t("exercises.restart"), keep(task.starter), kind="quiet"
    )
    yield b.Row((run, *([restart] if code != task.starter else [])), "center")


def _with(state: State, task: Task, code: str) -> tuple[tuple[str, str], ...]:
    """The user's programs with a new one for a task."""
    return tuple({**dict(state.of(ExercisesChoices).drafts), task.id: code}.items())


def _help(view: View, task: Task) -> b.Blocks:
    """Three hints, one after another, and the solution, each on request."""
    helped = dict(view.choices(ExercisesChoices).helped)
    shown = helped.get(task.id, 0)
    for number, hint in enumerate(task.hints[view.lang][:shown], 1):
        yield b.Prose(f":material/lightbulb: **{view.t('exercises.hint', n=number)}** {hint}")
    if shown > 3:
        yield b.Prose(f"**{view.t('exercises.solution')}** {task.solution[view.lang]}")
        yield b.Verbatim(task.reference, "python")
        return
    label = view.t("exercises.hint_ask", n=shown + 1) if shown < 3 else view.t("exercises.give_up")
    more = b.choose(helped=tuple({**helped, task.id: shown + 1}.items()))
    yield b.Button("exercises.more_help", label, more, "lightbulb")


EXHIBIT = Exhibit(None, show)
