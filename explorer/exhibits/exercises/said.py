"""Feedback on a program in words."""

from typing import Any

from explorer.analysis.exercises.grading import Grade, Path, Wrong, case_of
from explorer.analysis.exercises.tasks import Task, TaskCase
from explorer.exhibits import View
from explorer.exhibits.block import escape
from explorer.exhibits.saying import in_a_row
from explorer.sandbox import MOST_CHARACTERS, MOST_LINES, Fault
from explorer.text import shorten

MOST_GIVEN = 90
"""Most characters of an input that are shown."""


def reading_of(view: View, task: Task, grade: Grade) -> list[str]:
    """The verdict in sentences, as Markdown."""
    mistake = [] if grade.mistake is None else [grade.mistake.words[view.lang]]
    if grade.fault is not None:
        first, *others = fault_words(view, task, grade.fault)
        return [f":red[:material/error:] {first}", *others, *mistake]
    if grade.wrong is not None:
        first, *others = _wrong(view, task, grade.wrong)
        if grade.n_wrong > 1:
            others.append(view.t("exercises.in_all", count=grade.n_wrong))
        return [f":red[:material/cancel:] {first}", *others, *mistake]
    if grade.let:
        return [f":red[:material/cancel:] {_let(view, task, grade)}"]
    if task.is_check:
        sentence = view.t("exercises.all_caught", count=len(task.mutants))
    else:
        n_values = sum(len(row) for row in grade.values)
        sentence = view.t("exercises.passed", count=n_values, cases=len(task.cases))
    return [f":green[:material/check_circle:] {sentence}"]


def fault_words(view: View, task: Task, fault: Fault) -> list[str]:
    """Why a program gave no answer, with line and column if known."""
    # "outside" quotes the program as inline code, which only a backtick would end.
    quoted = fault.message.replace("`", "'")
    sentence = view.t(
        "exercises.faults",
        fault.kind,
        error=escape(fault.error),
        message=quoted if fault.kind == "outside" else escape(fault.message),
        function=task.function,
        signature=task.signature.rstrip(":").removeprefix("def "),
        number=fault.number,
        characters=MOST_CHARACTERS,
        lines=MOST_LINES,
    )
    if fault.line is not None:
        place = view.t("exercises.place", line=fault.line, column=fault.column or 1)
        sentence = in_a_row((place, sentence))
    if fault.case is None or task.is_check:
        return [sentence]
    given = _given(view, *case_of(task, fault.case))
    return [sentence, view.t("exercises.called_with", given=given)]


def _given(view: View, case: TaskCase, path: Path = ()) -> str:
    """An input as code: names and values."""
    parts = [f"{name} = {value}" for name, value in case.given.items()]
    if path:
        parts = [f"q = {path[0]}", f"k = {path[1]}", *parts]
    elif case.queries is not None:
        parts = [view.t("exercises.size", queries=case.queries, keys=case.keys), *parts]
    return " · ".join(f"`{shorten(part, MOST_GIVEN)}`" for part in parts)


def _wrong(view: View, task: Task, wrong: Wrong) -> list[str]:
    """The first wrong value, and its case unless it is the one that is drawn."""
    case = task.cases[wrong.case] if task.cases else None
    if wrong.shape:
        sentence = view.t(
            "exercises.kind_wrong", found=_kind(view, wrong.found), wanted=_kind(view, wrong.wanted)
        )
    elif task.is_mask:
        q, k = wrong.path
        sentence = view.t("exercises.does_not_see" if wrong.wanted else "exercises.sees", q=q, k=k)
    else:
        sentence = view.t(
            "exercises.number_wrong",
            place=_place(view, wrong.path, case is not None and case.keys is not None),
            found=_number(wrong.found),
            wanted=_number(wrong.wanted),
        )
    if case is None or (wrong.case == 0 and not wrong.shape):
        return [sentence]
    where = "exercises.at_hidden" if wrong.case else "exercises.called_with"
    return [sentence, view.t(where, given=_given(view, case))]


def _place(view: View, path: Path, in_matrix: bool) -> str:
    """The position of a value in an answer, in words."""
    if in_matrix:
        return view.t("exercises.cell_at", q=path[0], k=path[1])
    if not path:
        return view.t("exercises.the_number")
    return view.t("exercises.number_at", place="".join(f"[{index}]" for index in path))


def _kind(view: View, value: Any) -> str:
    """The kind of a value, in words."""
    if isinstance(value, bool):
        return "`True` / `False`"
    if value is None:
        return "`None`"
    if isinstance(value, list):
        return view.t("exercises.kinds.list", count=len(value))
    if isinstance(value, dict):
        return f"`{escape(str(value.get('type', '?'))[:40])}`"
    return view.t("exercises.kinds.number", value=_number(value))


def _number(value: float) -> str:
    return f"{value:.6g}".replace("-", "−")


def _let(view: View, task: Task, grade: Grade) -> str:
    """The suspects that a check judged wrongly, the first one in words."""
    first, n_wrong = grade.let[0], len(task.mutants)
    caught = n_wrong - sum(not suspect.right for suspect in grade.let)
    key = "exercises.accused" if first.right else "exercises.let_through"
    words = first.words[view.lang]
    return view.t(key, caught=caught, count=n_wrong, words=words)
