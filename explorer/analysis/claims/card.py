"""What a claim is: a common statement, an experiment that runs live, and a verdict."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from explorer.library import LoadedModel
from explorer.runs.trace import Trace

Verdict = Literal["true", "false", "depends"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
Group = Literal["attention", "counting", "cost", "positions", "blocks"]
GROUPS: tuple[Group, ...] = get_args(Group)
FractionDone = Callable[[float], None]
"""Told how much of an experiment is done, 0 to 1."""


@dataclass(frozen=True)
class ResultRow:
    """Some numbers of an experiment, one for each of its columns.

    `name` has its words at `claims.rows.<name>`, in which `of` fills {of}. NaN: the code refused,
    or gave NaN itself.
    """

    name: str
    values: tuple[float, ...]
    of: str = ""


@dataclass(frozen=True, eq=False)
class Curve:
    """What is drawn where a table alone would not show it; ys is [curve, x].

    `names` are those of rows, or else of columns; `x_name` and `y_name` of columns. Their words are
    at `claims.rows.<name>` and `claims.columns.<name>`.
    """

    x: np.ndarray = field(repr=False)
    ys: np.ndarray = field(repr=False)
    names: tuple[str, ...]
    x_name: str
    y_name: str
    log_y: bool = False


@dataclass(frozen=True, eq=False)
class Finding:
    """What an experiment found: the verdict follows from the numbers and is never written down.

    `columns` have their words at `claims.columns.<name>`. `bars` names a column to be drawn, row
    by row; `curve` is drawn instead where there is one. The explanation consists of the words at
    `claims.<id>.<name>` for each name of `why`, in which `numbers` fill {their names}.
    """

    verdict: Verdict
    columns: tuple[str, ...]
    rows: tuple[ResultRow, ...]
    curve: Curve | None = None
    bars: str = ""
    why: tuple[str, ...] = ("why",)
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A claim; its words are at `claims.<id>.claim`, its explanations where its Finding says.

    `test` runs the experiment with the reader's model and sentence. `own` says that it uses them.
    `slow`: it takes noticeably long and reports its progress.
    """

    id: str
    group: Group
    test: Callable[[LoadedModel, Trace, FractionDone], Finding]
    own: bool = True
    slow: bool = False


def judged(true: bool, false: bool = False) -> Verdict:
    """The verdict: "false" where `false` holds, "true" where `true` does, else "depends"."""
    return "false" if false else "true" if true else "depends"


def part_of(progress: FractionDone, turn: int, turns: int) -> FractionDone:
    """The progress of one of several equal turns, reported as that of the whole."""
    return lambda done: progress((turn + done) / turns)


def curve_of(
    rows: Sequence[ResultRow], columns: Sequence[str], x_name: str, y_name: str, log_y: bool = False
) -> Curve:
    """Rows with a number as `of`, drawn as one curve per column."""
    return Curve(
        x=np.array([float(row.of) for row in rows]),
        ys=np.array([row.values for row in rows], float).T,
        names=tuple(columns),
        x_name=x_name,
        y_name=y_name,
        log_y=log_y,
    )
