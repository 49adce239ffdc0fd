"""Grading of a program: its value for each case compared with the expected one.

Two of the exercises' judges are here: the exact values, also at sizes that were not shown, and the
planted mutants, which identify common mistakes. `planted` is the third.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from typing import Any

from explorer import sandbox
from explorer.analysis.exercises.tasks import Suspect, Task, TaskCase
from explorer.sandbox import Answer, Fault

TOLERANCE = 1e-9
"""The tolerance of a number, relative to the largest of its row (at least 1)."""

Path = tuple[int, ...]


@dataclass(frozen=True)
class Wrong:
    """The first wrong value: in case number `case` (0 is the one that is shown).

    `path` leads to it: (query, key) of a matrix, then the indices within a nested value.
    `shape`: the type or the length is wrong, not the value.
    """

    case: int
    path: Path
    found: Any
    wanted: Any
    shape: bool = False


@dataclass(frozen=True)
class Grade:
    """The result of one program. `values` and `wanted` are per case, each flattened.

    With a `fault`, `values` holds the shown case at most. `n_wrong` counts the wrong values of all
    cases. `mistake` is the mutant that gives the same values everywhere, if any. For a check task,
    `let` are the suspects that it judged wrongly.
    """

    fault: Fault | None
    printed: str
    values: tuple[tuple[Any, ...], ...]
    wanted: tuple[tuple[Any, ...], ...]
    wrong: Wrong | None = None
    n_wrong: int = 0
    mistake: Suspect | None = None
    let: tuple[Suspect, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether no error was found."""
        return self.fault is None and self.wrong is None and not self.let


def grade(task: Task, code: str) -> Grade:
    """Run a program on all cases of a task, and compare. Raises FileNotFoundError as `sandbox.run`.

    Raises ValueError if the task's own reference does not run.
    """
    if task.is_check:
        return _checked(task, code)
    answer = answered(task, code)
    wanted = _of(task, task.reference)
    if answer.fault is not None:
        alike = (mutant for mutant in task.mutants if _fails_alike(task, mutant.code, answer.fault))
        shown = answer.values[: task.cases[0].n_values]
        whole = len(shown) == task.cases[0].n_values
        first = (shown,) if whole else ()
        return Grade(answer.fault, answer.printed, first, wanted, mistake=next(alike, None))
    values = by_case(task, answer.values)
    wrong = [
        difference
        for at, (row, right) in enumerate(zip(values, wanted, strict=True))
        for difference in differences(task, at, row, right)
    ]
    mistake = None
    if wrong:
        same = (mutant for mutant in task.mutants if _agree(task, values, _of(task, mutant.code)))
        mistake = next(same, None)
    return Grade(
        None, answer.printed, values, wanted, wrong[0] if wrong else None, len(wrong), mistake
    )


def answered(task: Task, code: str) -> Answer:
    """The values of a program for all cases of a task, flattened."""
    grids = [case.grid for case in task.cases if case.queries is not None]
    cases = [list(case.given.values()) for case in task.cases if case.queries is None]
    return sandbox.run(code, task.function, grids=grids, cases=cases)


def by_case(task: Task, values: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
    """Flat values, split by case. Raises ValueError if their number differs."""
    ends = list(accumulate((case.n_values for case in task.cases), initial=0))
    if len(values) != ends[-1]:
        raise ValueError(f"{len(values)} values for cases of {ends[-1]}")
    return tuple(tuple(values[first:last]) for first, last in pairwise(ends))


@cache
def _of(task: Task, code: str) -> tuple[tuple[Any, ...], ...]:
    """The values of one of the task's own programs; empty for a mutant that fails."""
    answer = _answer(task, code)
    if answer.fault is None:
        return by_case(task, answer.values)
    if code == task.reference:
        raise ValueError(f"the reference of task {task.id} does not run: {answer.fault}")
    return ()


@cache
def _answer(task: Task, code: str) -> Answer:
    return answered(task, code)


def _fails_alike(task: Task, code: str, fault: Fault) -> bool:
    """Whether one of the task's own programs fails in the same call, with the same error."""
    other = _answer(task, code).fault
    return (
        other is not None
        and fault.case is not None
        and (
            (other.case, other.kind, other.error, other.message)
            == (fault.case, fault.kind, fault.error, fault.message)
        )
    )


def _agree(
    task: Task, values: tuple[tuple[Any, ...], ...], others: tuple[tuple[Any, ...], ...]
) -> bool:
    """Whether two programs give the same values everywhere."""
    return len(values) == len(others) and not any(
        differences(task, at, *rows) for at, rows in enumerate(zip(values, others, strict=True))
    )


def differences(task: Task, at: int, found: Sequence[Any], wanted: Sequence[Any]) -> list[Wrong]:
    """All values of one case that differ from the expected ones, in order."""
    case, wrong = task.cases[at], []
    for index, (value, right) in enumerate(zip(found, wanted, strict=True)):
        start = () if case.keys is None else divmod(index, case.keys)
        wrong += _apart(at, start, value, right)
    return wrong


def _apart(at: int, path: Path, found: Any, wanted: Any) -> list[Wrong]:
    """Where a value differs from the expected one: at most one place per number."""
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            return [Wrong(at, path, found, wanted, shape=True)]
        rows = enumerate(zip(found, wanted, strict=True))
        return [wrong for i, pair in rows for wrong in _apart(at, (*path, i), *pair)]
    if isinstance(wanted, bool) or wanted is None:
        if found is wanted:
            return []
        return [Wrong(at, path, found, wanted, shape=type(found) is not type(wanted))]
    if isinstance(found, bool) or not isinstance(found, int | float):
        return [Wrong(at, path, found, wanted, shape=True)]
    close = math.isclose(found, wanted, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return [] if close else [Wrong(at, path, found, wanted)]


def _checked(task: Task, code: str) -> Grade:
    """Grade a check, called with every suspect: which suspects it judged wrongly."""
    programs = [suspect.code for suspect in task.suspects]
    answer = sandbox.run(code, task.function, suspects=programs)
    wanted = (tuple(suspect.right for suspect in task.suspects),)
    if answer.fault is not None:
        return Grade(answer.fault, answer.printed, (), wanted)
    for at, (value, right) in enumerate(zip(answer.values, wanted[0], strict=True)):
        if not isinstance(value, bool):
            wrong = Wrong(0, (at,), value, right, shape=True)
            return Grade(None, answer.printed, (answer.values,), wanted, wrong, 1)
    let = tuple(
        suspect
        for value, suspect in zip(answer.values, task.suspects, strict=True)
        if value != suspect.right
    )
    return Grade(None, answer.printed, (answer.values,), wanted, n_wrong=len(let), let=let)


def case_of(task: Task, call: int) -> tuple[TaskCase, Path]:
    """The case, and the cell in it, of the call with this number."""
    for case in task.cases:
        if call < case.n_values:
            return case, () if case.keys is None else divmod(call, case.keys)
        call -= case.n_values
    return task.cases[-1], ()
