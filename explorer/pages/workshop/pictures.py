"""A program's result for the shown case, compared with the expected one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import streamlit as st

from explorer.analysis.workshop.grading import Grade
from explorer.analysis.workshop.tasks import Case, Task
from explorer.components import mask_matrix
from explorer.exhibits.view import View
from explorer.figures.paired import paired
from explorer.figures.positions.encoding import table as number_table
from explorer.ui import controls
from explorer.ui.tables import table

MOST_BARS = 24
SIGNS = {True: "✓", False: "✗"}


def pictures(view: View, task: Task, made: Grade | None) -> None:
    """Matrices side by side, pairs of bars, or a check's verdict on each suspect."""
    if task.is_check:
        _suspects(view, task, made)
        return
    case = task.cases[0]
    values = made.values[0] if made is not None and made.values else None
    if case.queries is None or case.keys is None:
        _row(view, task.wanted, values)
        return
    wrong = made.wrong if made is not None else None
    selected = (
        (wrong.path[0], wrong.path[1])
        if wrong is not None and wrong.case == 0 and len(wrong.path) >= 2
        else None
    )
    mine, right = st.columns(2, gap="large")
    with mine:
        st.markdown(f"**{view.t('workshop.yours')}**")
        if values is None:
            st.caption(view.t("workshop.no_picture"))
        else:
            _matrix(view, task, case, values, "yours", selected)
    with right:
        st.markdown(f"**{view.t('workshop.wanted')}**")
        _matrix(view, task, case, flat(task), "wanted")


def flat(task: Task) -> list[Any]:
    """The expected values of the shown case as a flat list."""
    if task.is_mask:
        return [cell == "#" for row in task.wanted for cell in row]
    return list(task.wanted)


def _matrix(
    view: View,
    task: Task,
    case: Case,
    values: Sequence[Any],
    name: str,
    selected: tuple[int, int] | None = None,
) -> None:
    assert case.queries is not None
    assert case.keys is not None
    shape = (case.queries, case.keys)
    key, title = f"workshop.{name}", view.t(f"workshop.{name}")
    if not task.is_mask:
        numbers = np.array(
            [float(v) if isinstance(v, int | float) else np.nan for v in values]
        ).reshape(shape)
        numbers[np.abs(numbers) > np.finfo(np.float32).max] *= np.inf  # figures use float32
        words = view.words("figures.positions") | view.words("workshop.axes")
        figure = number_table(numbers, dark=view.dark, words=words)
        most = max(map(abs, task.wanted))
        figure["data"][0] |= {"zmin": -most, "zmax": most}  # same colour scale on both sides
        controls.chart(figure, key, alt=title)
        return
    seen = np.array([value is True for value in values]).reshape(shape)
    mask_matrix(
        seen,
        (~seen).astype(np.uint8),
        title=title,
        rules=[view.t("workshop.blocked")],
        query_tokens=[str(q) for q in range(shape[0])],
        key_tokens=[str(k) for k in range(shape[1])],
        query_title=view.t("workshop.axes.position"),
        key_title=view.t("workshop.axes.dimension"),
        selected=selected,
        words=view.words("components.seen"),
        key=key,
    )


def _row(view: View, wanted: Sequence[Any], values: Sequence[Any] | None) -> None:
    """One answer: its numbers as pairs of bars, if few enough, and as text."""
    right = _numbers(wanted)
    found = [np.nan] * len(right) if values is None else _numbers(values)
    if len(right) <= MOST_BARS and len(found) == len(right):
        names = (view.t("workshop.yours"), view.t("workshop.wanted"))
        labels = [str(index) for index in range(len(right))]
        both = (np.array(found, np.float64), np.array(right, np.float64))
        figure = paired(labels, *both, names, title=view.t("clinic.value"), dark=view.dark)
        controls.chart(figure, "workshop.row", alt=view.t("workshop.alt"))
    mine, wished = st.columns(2, gap="large")
    for column, name, row in ((mine, "yours", values), (wished, "wanted", wanted)):
        with column:
            st.markdown(f"**{view.t(f'workshop.{name}')}**")
            if row is None:
                st.caption(view.t("workshop.no_picture"))
            else:
                st.code(_said(row), language=None, wrap_lines=True)


def _numbers(values: Any) -> list[float]:
    """All numbers of an answer in order; non-numeric values become NaN."""
    if isinstance(values, list | tuple):
        return [found for each in values for found in _numbers(each)]
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


def _suspects(view: View, task: Task, made: Grade | None) -> None:
    """Each suspect, its description, and the check's verdict."""
    values = made.values[0] if made is not None and made.values else [None] * len(task.suspects)
    rows = []
    for number, (suspect, value) in enumerate(zip(task.suspects, values, strict=True), 1):
        judged = "–" if value is None else view.t(f"workshop.verdicts.{bool(value)!s}".lower())
        is_right = value is not None and bool(value) == suspect.right
        # The fault of a wrong suspect is revealed only once it is caught.
        told = suspect.words[view.lang] if suspect.right or is_right else "?"
        sign = "" if value is None else SIGNS[is_right]
        rows.append((str(number), judged, sign, told))
    head = ("", view.t("workshop.found"), "", view.t("workshop.suspect"))
    table(head, rows, "rlll")
