"""The parts of a case: what runs, next to what, and the numbers that come out.

A bug is wrong code that runs next to the right code; a claim is a common statement with the
experiment that judges it; a choice is something that libraries do in several ways, each of which
runs and is compared with the model. Texts are at `cases.<id>.*` in the text files; `why` says what
makes a claim true, and what false.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from torch import Tensor

from explorer.analysis.mask_tests.probe import Subject
from explorer.library import LoadedModel
from explorer.runs.passes import Steps
from explorer.runs.trace import Trace
from models.hooks import AttentionSite, Edits
from models.rows import Rows

Verdict = Literal["true", "false", "depends"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
Part = Literal["bugs", "claims", "choices"]
GROUPS: Mapping[Part, tuple[str, ...]] = {
    "bugs": ("masks", "shapes", "fills", "padding", "model", "training"),
    "claims": ("attention", "counting", "cost", "positions", "blocks"),
    "choices": ("notation", "design", "backend"),
}
"""In the order of the page; texts at `cases.groups.*`."""
Needs = Literal["", "causal", "both_ways", "added", "end"]
"""What a model must have for a bug to be injected: nothing in particular, causal self-attention,
attention in which only padding is masked, positions added to the embeddings, an end token. Texts at
`cases.absent.*`."""
Plant = Callable[[Subject, Rows], Edits]
"""The injected bug: edits that replace our lines by the wrong ones in every run over these rows."""
Outcome = tuple[str, float]
"""What one way to make a choice gives: a word, whose text is at `cases.outcomes.<word>`, and the
share (0 to 1) that it mentions, NaN for none."""
Done = TypeVar("Done")
SHARED = ("matches", "seeds", "no_logits")
"""Explanations in the same words for several cases."""


@dataclass(frozen=True)
class ResultRow:
    """The numbers of one measurement, one for each column of the Result.

    The text of `name` is at `cases.rows.<name>`, in which `of` fills {of}. For a choice, both are
    keys of texts, or texts that no language translates. NaN: the code rejected the input, or
    returned NaN. `error` is the error that was raised, if any.
    """

    name: str
    values: tuple[float, ...]
    of: str = ""
    outcomes: tuple[Outcome, ...] = ()
    error: str = ""


@dataclass(frozen=True, eq=False)
class Curves:
    """A curve, for results that a table alone would not show; ys is [curve, x].

    `names` are names of rows, or else of columns; `x_name` and `y_name` of columns.
    """

    x: np.ndarray = field(repr=False)
    ys: np.ndarray = field(repr=False)
    names: tuple[str, ...]
    x_name: str
    y_name: str
    log_y: bool = False


@dataclass(frozen=True, eq=False)
class MatrixPair:
    """Two matrices [row, column] of equal shape, shown side by side.

    For a pattern, `head` is the head in which the two differ most, and `hidden` marks the cells
    that must not be visible; both are None otherwise.
    """

    wrong: np.ndarray
    right: np.ndarray
    head: int | None = None
    hidden: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Measured:
    """What one of the two ways of a bug gives.

    `numbers` are by the name of their row, or by (name, of); a tensor with axes stands for its
    largest difference from the other way's. `picture`: a pattern [head, query, key], or a table
    [row, column], Bool if it shows visibility. `own`: measured on the user's sentence, else on a
    small fixed case. `site` is the attention site of a pattern from the user's sentence; otherwise
    `labels` may name columns. `keep` is the mask of a single pattern [query, key], `error` the
    error that was raised, if any.
    """

    numbers: Mapping[Any, float | Tensor] = field(default_factory=dict)
    picture: Tensor | None = field(default=None, repr=False)
    own: bool = False
    site: str = ""
    labels: tuple[str, ...] = ()
    error: str = ""
    keep: Tensor | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a case: the verdict, if any, is computed from the numbers, never hard-coded.

    The texts of `columns` are at `cases.columns.<name>`. `bars` names a column to draw, row by
    row; `curve`, if given, is drawn instead. The explanation is the texts at `cases.<id>.<name>`
    for each name in `why`, or `cases.<name>` for a name in SHARED, in which `numbers` (or the texts
    at these keys) fill {their names}.
    `ways` are what a bug's wrong and right lines gave, or the open variant of a choice, explained
    by `opened` as `why` explains all, and the model. `grids` names the outcomes of a choice, drawn
    as grids [name, of] if its rows are all pairs of these. `code` is what ran in the open variant.
    """

    verdict: Verdict | Literal[""]
    columns: tuple[str, ...]
    rows: Sequence[ResultRow]
    curve: Curves | None = None
    bars: str = ""
    why: tuple[str, ...] = ("why",)
    numbers: Mapping[str, float | str] = field(default_factory=dict)
    ways: tuple[Measured, Measured] = (Measured(), Measured())
    opened: tuple[str, ...] = ()
    grids: tuple[str, ...] = ()
    code: tuple[object, ...] = ()

    @property
    def pair(self) -> MatrixPair | None:
        """The two matrices to draw; None if numbers are enough."""
        pictures = [way.picture for way in self.ways if way.picture is not None]
        if len(pictures) < 2:
            return None
        wrong, right = (picture.numpy() for picture in pictures)
        if (keep := self.ways[1].keep) is not None:
            return MatrixPair(wrong, right, hidden=~keep.numpy())
        if right.ndim == 2:
            return MatrixPair(wrong, right) if np.isfinite(wrong).all() else None
        head = int(np.nan_to_num(np.abs(wrong - right), nan=2.0).sum((1, 2)).argmax())
        return MatrixPair(wrong[head], right[head], head, hidden=right[head] == 0)


@dataclass(frozen=True)
class Case:
    """Something that is run and measured on the user's model and sentence, or on a fixed case.

    The `measure` of a claim or a choice returns the Result; it may be a generator. A choice may
    also take the open head. A bug also has the
    wrong lines, `variant`, and the right ones, `plain`: its `measure(way, traced)` returns what one
    of the two gives, with None for a fixed case. `plant` injects it into a model's run; None if it
    is not in the forward pass. `cached`: it shows only when decoding with a cache. `batched`: it
    leaves the first sentence of a batch intact. `left`: it shows only with padding on the left, so
    rows are read with this many PADs there. A model without what it `needs` gets no injection.
    """

    id: str
    group: str
    measure: Callable[..., Any]
    variant: Callable[..., Any] | None = None
    plain: Callable[..., Any] | None = None
    plant: Plant | None = None
    needs: Needs = ""
    cached: bool = False
    batched: bool = False
    left: int = 0

    @property
    def part(self) -> Part:
        """The part of the page that it is in."""
        return next(part for part, groups in GROUPS.items() if self.group in groups)

    def fits(self, model: Subject, rows: Rows) -> bool:
        """Whether injecting it changes anything in a run of this model."""
        return self.plant is not None and bool(self.plant(model, rows).functions)

    def steps(
        self, loaded: LoadedModel, traced: Trace, site: AttentionSite | None = None, head: int = 0
    ) -> Steps[Result]:
        """Run it, step by step if it has steps. Raises InputProblem."""
        if self.variant is not None:
            return self.compared(traced)
        result = self.measure(*inputs(self.measure, loaded, traced, site, head))
        return (yield from result) if isinstance(result, Generator) else result

    def compared(self, traced: Trace | None = None) -> Result:
        """What the wrong and the right lines of a bug give, on a Trace or on a fixed case."""
        wrong, right = (self.measure(way, traced) for way in (self.variant, self.plain))
        rows = []
        for key, bad in wrong.numbers.items():
            name, of = (key, "") if isinstance(key, str) else key
            good = right.numbers[key]
            if isinstance(bad, Tensor) and bad.ndim:
                bad, good = (bad - good).abs().max(), 0.0
            rows.append(ResultRow(name, (float(bad), float(good)), of))
        return Result("", ("wrong_lines", "right_lines"), rows, why=(), ways=(wrong, right))


def inputs(
    measure: Callable[..., Any], loaded: Any, traced: Any, site: Any = None, head: int = 0
) -> list[Any]:
    """The model, the Trace and the head, as far as the first parameters of an experiment name
    them."""
    names = inspect.signature(measure).parameters
    offered = {"loaded": loaded, "traced": traced, "site": site, "head": head}
    return [value for name, value in offered.items() if name in names]


def source_of(function: Callable[..., Any] | None) -> str:
    """The source lines of a function, without its docstring."""
    assert function is not None
    source = textwrap.dedent(inspect.getsource(function))
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.FunctionDef)
    lines = source.splitlines()
    if ast.get_docstring(definition) is not None:
        docstring = definition.body[0]
        del lines[docstring.lineno - 1 : docstring.end_lineno]
    return "\n".join(lines).strip()


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
    x, ys = np.array([float(row.of) for row in rows]), np.array([row.values for row in rows], float)
    return Curves(x, ys.T[: len(columns)], tuple(columns), x_name, y_name, log_y)
