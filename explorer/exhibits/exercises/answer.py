"""The picture of a task: the values of the user's program next to the expected ones."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from explorer.analysis.exercises.grading import Grade
from explorer.analysis.exercises.tasks import Task
from explorer.exhibits import View, block as b
from explorer.figures.bars import grouped
from explorer.figures.matrix import Axis, Matrix
from explorer.figures.positions.encoding import table

MOST_BARS = 24
SIGNS = {True: "✓", False: "✗"}


def picture(view: View, task: Task, result: Grade | None) -> b.Blocks:
    """Matrices side by side, pairs of bars, or a check's verdict on each suspect; before the
    program runs, what is expected."""
    values = result.values[0] if result is not None and result.values else None
    if task.is_check:
        yield _suspects(view, task, values)
        return
    if result is not None and values is None:
        yield b.Note(view.t("exercises.no_picture"))
    if task.cases[0].keys is None:
        yield from _row(view, task.wanted, values)
        return
    wrong = None if result is None else result.wrong
    is_drawn = wrong is not None and not wrong.case and len(wrong.path) > 1
    cell = (wrong.path[0], wrong.path[1]) if wrong is not None and is_drawn else None
    panels = [(view.t("exercises.wanted"), _matrix(view, task, flat(task)))]
    if values is not None:
        panels.insert(0, (view.t("exercises.yours"), _matrix(view, task, values, cell)))
    words = {"hint": view.t("components.seen.hint")} if task.is_mask else {}
    yield b.Matrices("exercises.matrices", panels, words=words)


def flat(task: Task) -> list[Any]:
    """The expected values of the shown case as a flat list."""
    if task.is_mask:
        return [cell == "#" for row in task.wanted for cell in row]
    return list(task.wanted)


def _matrix(
    view: View, task: Task, values: Sequence[Any], selected: tuple[int, int] | None = None
) -> Matrix:
    """A mask as a matrix of cells, numbers as a heatmap."""
    grid, words = task.cases[0].grid, view.words("exercises.axes")
    shape = grid.queries, grid.keys
    if not task.is_mask:
        words = view.words("figures.positions") | words
        most, cells = max(map(abs, task.wanted)), _finite(values).reshape(shape)
        return table(cells, limit=most, words=words)
    axes = Axis.numbers(shape[0], words["position"]), Axis.numbers(shape[1], words["dimension"])
    blocked = np.array([value is not True for value in values]).reshape(shape)
    rules = (view.t("components.seen.open"), view.t("exercises.blocked"))
    return Matrix(axes, blocked=blocked, rules=rules, selected=selected)


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
        draw = partial(grouped, labels, both, names, title=view.t("cases.value"))
        yield b.Chart("exercises.row", draw, view.t("exercises.alt"))
    for title, answer in (("exercises.yours", values), ("exercises.wanted", wanted)):
        if answer is not None:
            yield b.Title(view.t(title))
            yield b.Verbatim(_said(answer))


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
        judged = "–" if value is None else view.t("exercises.verdicts", str(bool(value)).lower())
        is_right = value is not None and bool(value) == suspect.right
        # The fault of a wrong suspect is revealed only once it is caught.
        told = suspect.words[view.lang] if suspect.right or is_right else "?"
        rows.append((str(number), judged, "" if value is None else SIGNS[is_right], told))
    head = ("", view.t("exercises.found"), "", view.t("exercises.suspect"))
    return b.Table(head, rows, "rlll")


def numbers(view: View, task: Task, result: Grade | None) -> dict[str, list[object]]:
    """Every case with its expected value, and the value found; before the program runs, the
    expected values of the shown case."""
    if task.is_check:
        names = [suspect.words[view.lang] for suspect in task.suspects]
        first, wanted = view.t("exercises.suspect"), [str(of.right) for of in task.suspects]
        values = result.values[0] if result is not None and result.values else ()
        found = [*map(str, values)]
    else:
        wanted = [*map(str, task.wanted)] if result is None else [*map(_short, result.wanted)]
        names = [str(at + 1) for at in range(len(wanted))]
        first = "#" if result is None else view.t("exercises.case")
        found = [] if result is None else [*map(_short, result.values)]
    found += ["–"] * (len(wanted) - len(found))
    titles = first, view.t("exercises.wanted"), view.t("exercises.found")
    return {title: [*column] for title, column in zip(titles, (names, wanted, found), strict=True)}


def _short(row: Sequence[Any]) -> str:
    return str(list(row))[:200]
