"""The parts of a claim: a common statement, an experiment that runs live, and a verdict."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar, get_args

import numpy as np

from explorer.library import LoadedModel
from explorer.runs.passes import Steps
from explorer.runs.trace import Trace

Verdict = Literal["true", "false", "depends"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
Group = Literal["attention", "counting", "cost", "positions", "blocks"]
GROUPS: tuple[Group, ...] = get_args(Group)
Done = TypeVar("Done")


@dataclass(frozen=True)
class ResultRow:
    """The numbers of an experiment, one for each of its columns.

    The text of `name` is at `claims.rows.<name>`, in which `of` fills {of}. NaN: the code rejected
    the input, or returned NaN.
    """

    name: str
    values: tuple[float, ...]
    of: str = ""


@dataclass(frozen=True, eq=False)
class Curves:
    """A curve, for results that a table alone would not show; ys is [curve, x].

    `names` are names of rows, or else of columns; `x_name` and `y_name` of columns. Their texts are
    at `claims.rows.<name>` and `claims.columns.<name>`.
    """

    x: np.ndarray = field(repr=False)
    ys: np.ndarray = field(repr=False)
    names: tuple[str, ...]
    x_name: str
    y_name: str
    log_y: bool = False


@dataclass(frozen=True, eq=False)
class Result:
    """The result of an experiment: the verdict is computed from the numbers, never hard-coded.

    The texts of `columns` are at `claims.columns.<name>`. `bars` names a column to draw, row by
    row; `curve`, if given, is drawn instead. The explanation is the texts at `claims.<id>.<name>`
    for each name in `why`, in which `numbers` fill {their names}.
    """

    verdict: Verdict
    columns: tuple[str, ...]
    rows: tuple[ResultRow, ...]
    curve: Curves | None = None
    bars: str = ""
    why: tuple[str, ...] = ("why",)
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A claim; its text is at `claims.<id>.claim`, its explanations are named by its Finding.

    `test` runs the experiment with the user's model and sentence. `own`: it uses them. `slow`: it
    takes noticeably long and goes step by step.
    """

    id: str
    group: Group
    test: Callable[[LoadedModel, Trace], Result | Steps[Result]]
    own: bool = True
    slow: bool = False

    def steps(self, loaded: LoadedModel, traced: Trace) -> Steps[Result]:
        """The experiment step by step, if it has steps."""
        result = self.test(loaded, traced)
        return (yield from result) if isinstance(result, Generator) else result


def judged(true: bool, false: bool = False) -> Verdict:
    """The verdict: "false" if `false`, else "true" if `true`, else "depends"."""
    return "false" if false else "true" if true else "depends"


def part_of(steps: Steps[Done], turn: int, turns: int) -> Steps[Done]:
    """The steps of one of several equal parts, counted as steps of the whole."""
    wanted = None
    while True:
        try:
            done, total = steps.send(wanted)
        except StopIteration as end:
            result: Done = end.value
            return result
        wanted = yield turn * total + done, turns * total


def curve_of(
    rows: Sequence[ResultRow], columns: Sequence[str], x_name: str, y_name: str, log_y: bool = False
) -> Curves:
    """Rows whose `of` is a number, drawn as one curve per column."""
    return Curves(
        x=np.array([float(row.of) for row in rows]),
        ys=np.array([row.values for row in rows], float).T,
        names=tuple(columns),
        x_name=x_name,
        y_name=y_name,
        log_y=log_y,
    )
