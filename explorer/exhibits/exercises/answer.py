"""The result of the user's program: a sentence, and its values next to the expected ones."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from explorer import sandbox
from explorer.analysis.exercises.grading import Grade, grade
from explorer.analysis.exercises.tasks import Task, task_of
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.exercises.choices import ExercisesChoices
from explorer.exhibits.exercises.said import reading_of
from explorer.exhibits.exercises.subject import graded, opened, program
from explorer.figures.bars import paired
from explorer.figures.matrix import Axis, Matrix
from explorer.figures.positions.encoding import table

MOST_BARS = 24
SIGNS = {True: "✓", False: "✗"}


def show(result: Grade | None, view: View) -> b.Blocks:
    """The values of the shown case; a program that passes is noted in the link."""
    task, solved = opened(view), view.choices(ExercisesChoices).solved
    if result is not None and result.passed and task.id not in solved:
        yield b.Remember(b.choose(solved=(*solved, task.id)))
    reading = () if result is None else (b.Sentence("exercises", reading_of(view, task, result)),)
    printed = result.printed if result is not None else ""
    noted = (b.Note(view.t("exercises.printed")), b.Verbatim(printed)) if printed else ()
    yield b.Hero((*reading, *_picture(view, task, result), *noted))
    yield b.Code((task_of,) if result is None else (grade, sandbox.run))
    yield b.Numbers(lambda: _numbers(view, task, result))


def _picture(view: View, task: Task, result: Grade | None) -> b.Blocks:
    """Matrices side by side, pairs of bars, or a check's verdict on each suspect."""
    values = result.values[0] if result is not None and result.values else None
    if task.is_check:
        yield _suspects(view, task, values)
    elif task.cases[0].keys is None:
        yield from _row(view, task.wanted, values)
    else:
        mine = _matrix(view, task, values, "yours", _wrong_cell(result))
        yield _sides(view, mine, _matrix(view, task, flat(task), "wanted"))


def _sides(view: View, mine: b.Block, right: b.Block) -> b.Columns:
    """The user's result and the expected one, each below its title."""
    sides = {"yours": mine, "wanted": right}
    return b.Columns([(b.Title(view.t(f"exercises.{name}")), side) for name, side in sides.items()])


def _wrong_cell(result: Grade | None) -> tuple[int, int] | None:
    """The first wrong cell of the shown case."""
    wrong = None if result is None else result.wrong
    if wrong is None or wrong.case or len(wrong.path) < 2:
        return None
    return wrong.path[0], wrong.path[1]


def flat(task: Task) -> list[Any]:
    """The expected values of the shown case as a flat list."""
    if task.is_mask:
        return [cell == "#" for row in task.wanted for cell in row]
    return list(task.wanted)


def _matrix(
    view: View,
    task: Task,
    values: Sequence[Any] | None,
    name: str,
    selected: tuple[int, int] | None = None,
) -> b.Block:
    """A mask as a matrix of cells, numbers as a heatmap."""
    if values is None:
        return b.Note(view.t("exercises.no_picture"))
    grid, title = task.cases[0].grid, view.t(f"exercises.{name}")
    shape = grid.queries, grid.keys
    words, address = view.words("exercises.axes"), f"exercises.{name}"
    if not task.is_mask:
        words = view.words("figures.positions") | words
        most, cells = max(map(abs, task.wanted)), _finite(values).reshape(shape)
        drawn = table(cells, limit=most, words=words)
        return b.Matrices(address, ((title, drawn),), captioned=False)
    axes = Axis.numbers(shape[0], words["position"]), Axis.numbers(shape[1], words["dimension"])
    blocked = np.array([value is not True for value in values]).reshape(shape)
    rules = (view.t("components.seen.open"), view.t("exercises.blocked"))
    seen = Matrix(axes, blocked=blocked, rules=rules, selected=selected)
    hint = {"hint": view.t("components.seen.hint")}
    return b.Matrices(address, ((title, seen),), captioned=False, words=hint)


def _finite(values: Sequence[Any]) -> np.ndarray:
    """Values as numbers; others become NaN, and those too large for a figure's float32 infinite."""
    numbers = np.array([float(v) if isinstance(v, int | float) else np.nan for v in values])
    numbers[np.abs(numbers) > np.finfo(np.float32).max] *= np.inf
    return numbers


def _row(view: View, wanted: Sequence[Any], values: Sequence[Any] | None) -> b.Blocks:
    """One answer: its numbers as pairs of bars, if few enough, and as text."""
    right = _flat_numbers(wanted)
    numbers = [np.nan] * len(right) if values is None else _flat_numbers(values)
    if len(right) <= MOST_BARS and len(numbers) == len(right):
        names = (view.t("exercises.yours"), view.t("exercises.wanted"))
        labels = [str(index) for index in range(len(right))]
        both = (np.array(numbers, np.float64), np.array(right, np.float64))
        draw = partial(paired, labels, *both, names, title=view.t("cases.value"))
        yield b.Chart("exercises.row", draw, view.t("exercises.alt"))
    none = b.Note(view.t("exercises.no_picture"))
    mine = none if values is None else b.Verbatim(_said(values))
    yield _sides(view, mine, b.Verbatim(_said(wanted)))


def _flat_numbers(values: Any) -> list[float]:
    """All numbers of an answer in order; non-numeric values become NaN."""
    if isinstance(values, list | tuple):
        return [number for value in values for number in _flat_numbers(value)]
    return [float(values) if isinstance(values, int | float) else np.nan]


def _said(values: Sequence[Any]) -> str:
    """An answer as Python source, with rounded numbers."""

    def shown(value: Any) -> str:
        if isinstance(value, list | tuple):
            return "[" + ", ".join(map(shown, value)) + "]"
        if isinstance(value, float):
            return f"{value:.6g}"
        return str(value["type"]) if isinstance(value, dict) else str(value)

    return shown(values[0] if len(values) == 1 else list(values))[:400]


def _suspects(view: View, task: Task, values: Sequence[Any] | None) -> b.Table:
    """Each suspect, its description, and the check's verdict."""
    rows = []
    verdicts = values or [None] * len(task.suspects)
    for number, (suspect, value) in enumerate(zip(task.suspects, verdicts, strict=True), 1):
        judged = "–" if value is None else view.t(f"exercises.verdicts.{bool(value)!s}".lower())
        is_right = value is not None and bool(value) == suspect.right
        # The fault of a wrong suspect is revealed only once it is caught.
        told = suspect.words[view.lang] if suspect.right or is_right else "?"
        sign = "" if value is None else SIGNS[is_right]
        rows.append((str(number), judged, sign, told))
    head = ("", view.t("exercises.found"), "", view.t("exercises.suspect"))
    return b.Table(head, rows, "rlll")


def _numbers(view: View, task: Task, result: Grade | None) -> dict[str, list[object]]:
    """Every case with its expected value, and the value found."""
    if task.is_check:
        values = (
            result.values[0]
            if result is not None and result.values
            else [None] * len(task.suspects)
        )
        return {
            view.t("exercises.suspect"): [suspect.words[view.lang] for suspect in task.suspects],
            view.t("exercises.wanted"): [str(suspect.right) for suspect in task.suspects],
            view.t("exercises.found"): [str(value) for value in values],
        }
    wanted = (task.wanted,) if result is None else result.wanted
    answers = result.values if result is not None and result.values else ((None,),) * len(wanted)
    return {
        view.t("exercises.case"): list(range(1, len(wanted) + 1)),
        view.t("exercises.wanted"): [str(list(row))[:200] for row in wanted],
        view.t("exercises.found"): [str(list(row))[:200] for row in answers],
    }


EXHIBIT = Exhibit(graded, show, inputs={"task": lambda view: opened(view).id, "code": program})
