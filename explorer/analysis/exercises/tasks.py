"""The exercises, read from `assets/exercises/*.toml`: a teacher adds a table there.

docs/CONTRIBUTING.md describes the format. Entries are checked when read: a missing or unknown
entry raises ValueError with the file, the task and the entry.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from explorer.sandbox import Grid
from explorer.text import LANGUAGES
from models.training.home import asset

Kind = Literal["masks", "numbers", "repairs", "testing"]
"""In page order; words at `exercises.groups.*`, one file each in `assets/exercises`."""
KINDS: tuple[Kind, ...] = get_args(Kind)
Sites = Literal["", "decoder", "everywhere", "cross"]
"""The sites of a trained model that a predicate applies to: its decoder's self-attention, all sites
(the causal mask stays), its cross-attention; "" if it is not a mask of a model."""
MOST_IN_CASE = 64


@dataclass(frozen=True)
class TaskCase:
    """One input. `given` are the further arguments by name, in the order of the signature.

    For a predicate, `queries` and `keys` are the sizes of its matrix, otherwise None: one call.
    """

    given: Mapping[str, Any]
    queries: int | None = None
    keys: int | None = None

    @property
    def grid(self) -> Grid:
        """All its cells. Raises ValueError for a case without a matrix."""
        if self.queries is None or self.keys is None:
            raise ValueError("this case is one call")
        return Grid(self.queries, self.keys, tuple(self.given.values()))

    @property
    def n_values(self) -> int:
        """The number of values in an answer to it."""
        return (self.queries or 1) * (self.keys or 1)


@dataclass(frozen=True)
class Suspect:
    """An example program: a common mistake, described by `words`, or a correct one.

    In a task that asks for a check, the check is called with it, and it defines `suspect`.
    """

    code: str
    right: bool
    words: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Task:
    """One task. Words are by language. `cases[0]` is shown, the others are not.

    `wanted` is the reference's result for the shown case, so that it can be drawn without running
    anything: rows of # (True) and . of a mask, else numbers. `note` explains the arguments if their
    names do not. `bug` is the pitfall that the task fixes.
    """

    id: str
    kind: Kind
    function: str
    name: Mapping[str, str]
    text: Mapping[str, str]
    formula: str
    starter: str
    reference: str
    hints: Mapping[str, Sequence[str]]
    solution: Mapping[str, str]
    cases: tuple[TaskCase, ...]
    wanted: tuple[Any, ...]
    suspects: tuple[Suspect, ...]
    note: Mapping[str, str]
    planted: Sites = ""
    bug: str = ""

    @property
    def signature(self) -> str:
        """The line that the program must have: `def may_attend(q, k):`."""
        lines = self.reference.splitlines()
        return next(line for line in lines if line.startswith(f"def {self.function}("))

    @property
    def is_mask(self) -> bool:
        """Whether its values are mask cells, True if a query may attend to a key."""
        return isinstance(self.wanted[0], str) if self.wanted else False

    @property
    def is_check(self) -> bool:
        """Whether it asks for a check of other programs."""
        return self.kind == "testing"

    @property
    def is_given_away(self) -> bool:
        """Whether its formula is its solution, so that it comes with the last hint."""
        return self.kind == "masks"

    @property
    def mutants(self) -> tuple[Suspect, ...]:
        """Its suspects that are wrong."""
        return tuple(suspect for suspect in self.suspects if not suspect.right)


@cache
def tasks() -> tuple[Task, ...]:
    """All tasks, by kind and then in file order. Raises ValueError as described above."""
    exercises = [task for kind in KINDS for task in read(asset("exercises", f"{kind}.toml"), kind)]
    twice = {
        task.id for task in exercises if [exercise.id for exercise in exercises].count(task.id) > 1
    }
    if twice:
        raise ValueError(f"assets/exercises: two tasks have the id {min(twice)!r}")
    return tuple(exercises)


def task_of(name: str) -> Task | None:
    """The task with this id; None if there is none."""
    return next((task for task in tasks() if task.id == name), None)


def read(path: Path, kind: Kind) -> Iterator[Task]:
    """The tasks of one file. Raises ValueError as described above."""
    with path.open("rb") as file:
        tables = tomllib.load(file).get("task", [])
    for table in tables:
        try:
            yield _task(dict(table), kind)
        except (KeyError, TypeError, ValueError) as problem:
            detail = f"{problem.args[0]!s}" if problem.args else type(problem).__name__
            missing = "is missing: " if isinstance(problem, KeyError) else ""
            name = table.get("id", "without an id")
            raise ValueError(f"{path.name}, task {name}: {missing}{detail}") from problem


def _task(table: dict[str, Any], kind: Kind) -> Task:
    words = {lang: {"note": "", **table.pop(lang)} for lang in LANGUAGES}
    named = ("name", "text", "hints", "solution", "note")
    table |= {name: {lang: words[lang][name] for lang in LANGUAGES} for name in named}
    table |= {name: table[name].strip("\n") for name in ("starter", "reference")}
    cases = (table.pop("shown", None), *table.pop("hidden", ()))
    table["cases"] = tuple(_case(case) for case in cases if case is not None)
    table["suspects"] = tuple(
        Suspect(
            entry["code"].strip("\n"),
            bool(entry.get("right", False)),
            {lang: entry[lang] for lang in LANGUAGES},
        )
        for entry in table["suspects"]
    )
    table["wanted"] = tuple(table.get("wanted", ()))
    task = Task(kind=kind, **table)
    if any(len(entry) != 3 for entry in task.hints.values()):
        raise ValueError("each language needs three hints")
    if task.planted not in get_args(Sites):
        raise ValueError(f"planted is {task.planted!r}, and may be one of {get_args(Sites)}")
    if not task.is_check and (not task.cases or not task.wanted):
        raise ValueError("needs shown and wanted")
    if f"def {task.function}(" not in task.reference:
        raise ValueError(f"the reference does not define {task.function}")
    return task


def _case(table: Mapping[str, Any]) -> TaskCase:
    arguments = {name: value for name, value in table.items() if name not in ("queries", "keys")}
    case = TaskCase(arguments, table.get("queries"), table.get("keys"))
    if (case.queries is None) != (case.keys is None):
        raise ValueError("a case has queries and keys, or neither")
    if case.queries is not None and max(case.grid.queries, case.grid.keys) > MOST_IN_CASE:
        raise ValueError(f"a case has at most {MOST_IN_CASE} queries and keys")
    return case
