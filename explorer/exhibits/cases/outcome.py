"""What a case gives: pictures and numbers; the verdict on a claim, the lines of a bug, the outcome
of each way to make a choice."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from explorer.analysis.cases import BY_ID, GUESSED, Case, Result, ResultRow
from explorer.analysis.cases.case import SHARED, MatrixPair, Outcome, source_of
from explorer.engine.cache import Run, open_model, trace
from explorer.exhibits import Exhibit, View, Wait, block as b, saying
from explorer.exhibits.block import escape
from explorer.exhibits.cases.case import CASES, PLACES, formulas, opened
from explorer.exhibits.cases.choices import CasesChoices
from explorer.figures.bars import grouped, measured
from explorer.figures.curves import lines
from explorer.figures.matrix import Axes, Axis, Matrix
from explorer.figures.outcomes import Level, outcomes, suspect
from explorer.figures.positions.encoding import table as position_table
from explorer.numbers import digits, percent, tabled
from explorer.runs.passes import Steps
from explorer.runs.trace import Trace
from explorer.text import has
from models.hooks import AttentionSite

LEVELS: dict[str, Level] = {
    **dict.fromkeys(("right", "blocks", "zero", "own", "same", "moved", "agrees"), "good"),
    **dict.fromkeys(("nan", "refused"), "loud"),
}
"""Of an outcome; all others are wrong without any error."""


def _run_of(view: View) -> Run:
    """The run without edits, so that a bug is its only mistake; for a claim, without padding."""
    plain = opened(view).part == "claims"
    return view.run.plain if plain else replace(view.run, edits=())


def _at(view: View) -> tuple[AttentionSite, int] | None:
    return (view.site, view.head) if opened(view).group == "backend" else None


def _measured_case(view: View) -> str:
    """The open case; "" before the guess on a claim, and if another page measures it."""
    case = opened(view)
    waits = case.part == "claims" and not view.choices(CasesChoices).guess
    return "" if waits or case.id in PLACES else case.id


def compute(
    measured_on: Run, case: str, turn: int, at: tuple[AttentionSite, int] | None
) -> Steps[Result | None]:
    """The result for the model as trained, for a choice also `at` a head; another `turn` runs the
    case again. None without a case. Raises InputProblem."""
    if not case:
        return None
    loaded = open_model(measured_on.model)
    return (yield from BY_ID[case].steps(loaded, trace(measured_on), *(at or ())))


def show(result: Result | None, view: View) -> b.Blocks:
    """The verdict, the pictures, and the numbers that it follows from."""
    case = opened(view)
    if result is None:
        titles = [view.t("cases", entry.id, "title") for entry in CASES[case.part]]
        yield b.Numbers(lambda: {view.t("cases.case"): titles})
        return
    if case.part == "choices":
        words = words_of(view, case.id, result)
        yield b.Hero((b.Sentence("cases", words), *table_of(view, result)))
        yield b.Code(result.code)
        yield b.Numbers(lambda: _numbers(view, result))
        return
    claims = case.part == "claims"
    where = "cases.own" if result.ways[1].own else "cases.fixed"
    head = _verdict(view, case, result) if claims else [b.Note(view.t(where))]
    pictures = _drawn(view, result) if claims else _compared(view, result, trace(_run_of(view)))
    yield b.Hero((*head, *pictures, *table_of(view, result)))
    if claims:
        again = b.choose(turn=view.choices(CasesChoices).turn + 1)
        yield b.Button("cases.again", view.t("cases.again"), again)
    else:
        yield from _code_of(view, case, result)
    yield b.Numbers(lambda: _numbers(view, result))


def _verdict(view: View, case: Case, result: Result) -> b.Blocks:
    own = view.choices(CasesChoices)
    at = GUESSED.index(case.id)
    guessed = own.after(at, own.guess == result.verdict)
    if guessed != own.guessed:
        yield b.Remember(b.choose(guessed=guessed))
    verdict, guess = (
        view.t("cases.verdicts", judgement) for judgement in (result.verdict, own.guess)
    )
    if own.guess == result.verdict:
        words = ":material/check_circle: " + view.t("cases.guessed_right", verdict=verdict)
    else:
        words = ":material/cancel: " + view.t("cases.guessed_wrong", guess=guess, verdict=verdict)
    yield b.Sentence("cases", words)
    yield b.Prose(words_of(view, case.id, result))
    outcomes = [judgement for judgement in guessed if judgement is not None]
    score = view.t("cases.score", right=sum(outcomes), count=len(outcomes))
    yield b.Note(score)


def words_of(view: View, case: str, result: Result, names: Sequence[str] | None = None) -> str:
    """The texts of these `names`, by default the reason for the verdict, with the numbers of this
    experiment."""
    numbers = {
        name: named(view, value) if isinstance(value, str) else tabled(value)
        for name, value in result.numbers.items()
    }
    names = result.why if names is None else names
    paths = ((name,) if name in SHARED else (case, name) for name in names)
    return saying.in_a_row(view.t("cases", *path, **numbers) for path in paths)


def table_of(view: View, result: Result) -> Iterator[b.Table | b.Note]:
    """All numbers of a case; the outcomes of the ways to make a choice come first."""
    head = [view.t("cases.row"), *(view.t("cases.columns", name) for name in result.columns)]
    number = as_text if result.ways[1].numbers else tabled
    rows = [[_label(view, row), *map(number, row.values)] for row in result.rows]
    align = "l" + "r" * len(result.columns)
    if rows and result.rows[0].outcomes:
        align = f"l{align}"
        head[:1] = view.t("cases.way"), view.t("cases.columns.outcome")
        for cells, row in zip(rows, result.rows, strict=True):
            bold = level_of(row.outcomes[0]) != "good"
            word = spelt(view, row.outcomes[0])
            cells.insert(1, f":orange[**{word}**]" if bold else word)
    if rows:
        yield b.Table(head, rows, align)
    values = [value for row in result.rows for value in row.values]
    if result.verdict and any(map(math.isnan, values)):
        yield b.Note(view.t("cases.dash"))


def as_text(value: float) -> str:
    """A number of any size, infinity or NaN as text; a rounding error is 0."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return tabled(0 if abs(value) < 1e-6 else value)


def _label(view: View, row: ResultRow) -> str:
    """The name of a row's measurement, or of a way to make a choice."""
    if row.outcomes:
        return " · ".join(named(view, name) for name in (row.name, row.of) if name)
    return view.t("cases.rows", row.name, of=named(view, row.of))


def named(view: View, name: str) -> str:
    """The text at a key, or what no language translates."""
    return view.t(name) if has(name, lang=view.lang) else name


def _drawn(view: View, result: Result) -> Iterator[b.Chart]:
    """The curve of an experiment, or one of its columns as bars; none for plain numbers."""
    labels = [_label(view, row) for row in result.rows]
    if (curve := result.curve) is not None:
        rows = dict(zip((row.name for row in result.rows), labels, strict=True))
        draw: Callable[..., b.Figure] = partial(
            lines,
            curve.x,
            curve.ys,
            [rows.get(name) or view.t("cases.columns", name) for name in curve.names],
            x_title=view.t("cases.columns", curve.x_name),
            y_title=view.t("cases.columns", curve.y_name),
            log_y=curve.log_y,
        )
    elif result.bars:
        at = result.columns.index(result.bars)
        values = np.array([row.values[at] for row in result.rows], float)
        draw = partial(measured, labels, values, title=view.t("cases.columns", result.bars))
    else:
        return
    yield b.Chart("cases.picture", draw, view.t("cases.measured"))


def grids_of(
    view: View, case: Case, result: Result, at: tuple[str, str] = ("", ""), **words: str
) -> b.Blocks:
    """The outcome of every way to make a choice as grids, that at (name, of) outlined, and what
    they show; `words` fill the titles."""
    panels = []
    for grid, name in enumerate(result.grids):
        cells = {(row.name, row.of): row.outcomes[grid] for row in result.rows}
        names, ofs = (tuple(dict.fromkeys(cell[axis] for cell in cells)) for axis in (0, 1))
        drawn = outcomes(
            [[level_of(cells[name, of]) for of in ofs] for name in names],
            [[spelt(view, cells[name, of]) for of in ofs] for name in names],
            [named(view, name) for name in names],
            [named(view, of) for of in ofs],
            selected=(names.index(at[0]), ofs.index(at[1])) if at in cells else None,
        )
        panels.append((view.t("cases", case.id, name, **words), drawn))
    yield b.Matrices(f"cases.{case.id}.grids", panels)
    yield b.Sentence("cases", words_of(view, case.id, result))


def level_of(outcome: Outcome) -> Level:
    """How bad an outcome is."""
    return LEVELS.get(outcome[0], "silent")


def spelt(view: View, outcome: Outcome) -> str:
    """An outcome in a word, and below it the share of the weight that it concerns, if any."""
    word, amount = outcome
    text = view.t("cases.outcomes", word)
    if math.isnan(amount) or word in ("nan", "right", "zero"):
        return text
    if word in ("blocks", "imprecise"):  # the error of a weight, often tiny
        return f"{text}\n±{digits(100 * amount, 2)} %"
    return f"{text}\n{percent(amount)}"


def variant_of(view: View, case: Case, result: Result) -> b.Blocks:
    """The open way to make a choice: what it does, its picture next to the model's, or its
    error."""
    if result.opened:
        yield b.Sentence("opened", words_of(view, case.id, result, result.opened))
    if result.ways[0].error:
        yield b.Verbatim(result.ways[0].error)
    elif result.pair is not None:
        yield from _compared(view, result, view.trace)


def print_of(view: View, case: Case, result: Result) -> b.Blocks:
    """The formula, the code and the numbers of a choice."""
    yield b.Formula(formulas()[case.id], view.t("cases", case.id, "formula"))
    yield b.Code((*result.code, case.measure))
    yield b.Numbers(lambda: _numbers(view, result))


def _compared(view: View, result: Result, traced: Trace) -> b.Blocks:
    """Wrong and right side by side as matrices; a single row as pairs of bars."""
    pair = result.pair
    if pair is None:
        wrong, right = np.array([row.values for row in result.rows]).T
        yield from _bars(view, [_label(view, row) for row in result.rows], wrong, right)
    elif pair.hidden is None and pair.right.dtype != np.bool_ and len(pair.right) == 1:
        yield from _bars(view, result.ways[1].labels, pair.wrong[0], pair.right[0])
    else:
        axes = _axes(view, result, pair, traced)
        titles = ("actual", "expected") if result.opened else ("wrong_lines", "right_lines")
        sides = zip(("wrong", "right"), titles, strict=True)
        yield b.Matrices("cases.matrices", [_matrix(view, *side, pair, axes) for side in sides])


def _bars(
    view: View, labels: Sequence[str], wrong: np.ndarray, right: np.ndarray
) -> Iterator[b.Chart]:
    numbers = np.concatenate([wrong, right])
    if len(labels) == 0 or not (np.abs(numbers) < 1e5).all():
        return  # limits of a type, or NaN: shown in the table only
    names = (view.t("cases.columns.wrong_lines"), view.t("cases.columns.right_lines"))
    draw = partial(grouped, labels, (wrong, right), names, title=view.t("cases.value"))
    yield b.Chart("cases.bars", draw, view.t("cases.alt"))


def _axes(view: View, result: Result, pair: MatrixPair, traced: Trace) -> Axes:
    """The axis labels: the sentence's tokens if the picture has any, else numbers."""
    (n_row, n_column), way = pair.right.shape, result.ways[1]
    if way.site:
        tokens = traced.query_tokens(way.site)[-n_row:], traced.key_tokens(way.site)
        return saying.site_axes(view, traced.site(way.site), traced, tokens)
    square = n_row == len(way.labels)  # column labels also apply to rows
    rows = way.labels if square else [str(row + 1) for row in range(n_row)]
    columns = way.labels or [str(column + 1) for column in range(n_column)]
    query, key = map(view.t, ("figures.heatmap.query", "figures.heatmap.key"))
    return Axis(rows, query), Axis(columns, key)


def _matrix(view: View, name: str, title: str, pair: MatrixPair, axes: Axes) -> tuple[str, Matrix]:
    """One of the two matrices: a pattern, a mask, or a table of numbers."""
    matrix = pair.wrong if name == "wrong" else pair.right
    title = view.t("cases.columns", title)
    if pair.head is not None:
        title = view.t("cases.in_head", which=title, head=pair.head + 1)
    if matrix.dtype == np.bool_ and pair.hidden is None:
        rules = (view.t("components.seen.open"), view.t("cases.unseen"))
        return title, Matrix(axes, blocked=~matrix, rules=rules)
    if pair.hidden is None:
        return title, position_table(matrix, words=view.words("figures.positions"))
    hidden, words = view.t("cases.hidden"), view.words("figures.heatmap")
    return title, suspect(matrix, pair.hidden, axes, hidden_word=hidden, words=words)


def _code_of(view: View, case: Case, result: Result) -> b.Blocks:
    """The lines that run for this page, why the bug is silent, and what to write instead."""
    marks = (":red[:material/close:]", ":material/check:")
    names = [view.t("cases.columns", name) for name in result.columns]
    sources = [b.Verbatim(source_of(way), "python") for way in (case.variant, case.plain)]
    titles = [b.Title(f"{mark} {name}") for mark, name in zip(marks, names, strict=True)]
    yield b.Columns([*zip(titles, sources, strict=True)])
    why, instead = map(view.t, ("cases.why_silent", "cases.instead"))
    yield b.Columns(
        (
            [b.Prose(f"**{why}** {view.t('cases', case.id, 'silent')}")],
            [b.Prose(f"**{instead}** {view.t('cases', case.id, 'right')}")],
        )
    )


def _numbers(view: View, result: Result) -> dict[str, list[object]]:
    columns: dict[str, list[object]] = {
        view.t("cases.row"): [_label(view, row) for row in result.rows]
    }
    for at, name in enumerate(result.columns):
        columns[view.t("cases.columns", name)] = [float(row.values[at]) for row in result.rows]
    for at, name in enumerate(result.grids):
        spelt_out: list[object] = [
            spelt(view, row.outcomes[at]).replace("\n", " ") for row in result.rows
        ]
        columns[view.t("cases.columns", name)] = spelt_out
    if any(row.error for row in result.rows):
        columns[view.t("cases.columns.error")] = [escape(row.error) for row in result.rows]
    return columns


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={"measured_on": _run_of, "case": _measured_case, "at": _at},
    wait=Wait("cases.working", long=lambda view: opened(view).part != "bugs"),
)
