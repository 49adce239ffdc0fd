"""The experiment of a claim, run once for all pages, and its verdict."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from explorer.analysis.claims import BY_ID, CLAIMS, Result, ResultRow
from explorer.engine.cache import Run, open_model, trace
from explorer.engine.caching import cached
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.claims.choices import ClaimsChoices
from explorer.exhibits.claims.claim import chosen
from explorer.exhibits.saying import in_a_row
from explorer.figures.curves import lines
from explorer.figures.measured import measured
from explorer.numbers import tabled
from explorer.runs.passes import Steps


@cached
def finding_of(run: Run, claim: str, turn: int = 0) -> Steps[Result]:
    """The experiment of a claim on one run; another `turn` runs it again. Raises InputProblem."""
    return (yield from BY_ID[claim].steps(open_model(run.model), trace(run)))


def compute(run: Run, claim: str, guess: str, turn: int) -> Steps[Result | None]:
    """The finding about the model as trained; None before the guess. Raises InputProblem."""
    if not guess:
        return None
    return (yield from finding_of.steps(replace(run, edits=()), claim or CLAIMS[0].id, turn))


def show(finding: Result | None, view: View) -> b.Blocks:
    """The verdict and the numbers that it follows from."""
    if finding is None:
        claims = [view.t(f"claims.{claim.id}.claim") for claim in CLAIMS]
        yield b.Numbers(lambda: {view.t("claims.claim"): claims})
        return
    yield b.Hero((*_verdict(view, finding), *_picture(view, finding), *table_of(view, finding)))
    turn = view.choices(ClaimsChoices).turn + 1
    yield b.Button("claims.again", view.t("claims.again"), b.choose(turn=turn))
    yield b.Numbers(lambda: _numbers(view, finding))


def _verdict(view: View, finding: Result) -> b.Blocks:
    claim, made = chosen(view), view.choices(ClaimsChoices)
    guessed = made.after([*BY_ID].index(claim.id), made.guess == finding.verdict)
    if guessed != made.guessed:
        yield b.Remember(b.choose(guessed=guessed))
    verdict, guess = (view.t(f"claims.verdicts.{each}") for each in (finding.verdict, made.guess))
    if made.guess == finding.verdict:
        words = ":material/check_circle: " + view.t("claims.right", verdict=verdict)
    else:
        words = ":material/cancel: " + view.t("claims.wrong", guess=guess, verdict=verdict)
    yield b.Sentence("claims", words)
    yield b.Prose(words_of(view, claim.id, finding))
    outcomes = [each for each in guessed if each is not None]
    score = view.t("claims.score", right=sum(outcomes), count=len(outcomes))
    yield b.Note(in_a_row((view.t("claims.own" if claim.own else "claims.fixed"), score)))


def words_of(view: View, claim: str, finding: Result) -> str:
    """The reason for the verdict on a claim, with the numbers of this experiment."""
    numbers = {name: tabled(value) for name, value in finding.numbers.items()}
    return in_a_row(view.t(f"claims.{claim}.{why}", **numbers) for why in finding.why)


def _picture(view: View, finding: Result) -> Iterator[b.Chart]:
    """The curve of an experiment, or one of its columns as bars; none for plain numbers."""
    if finding.curve is not None:
        curve = finding.curve
        rows = {row.name: _label(view, row) for row in finding.rows}
        draw: Callable[..., b.Figure] = partial(
            lines,
            curve.x,
            curve.ys,
            [rows.get(name) or view.t(f"claims.columns.{name}") for name in curve.names],
            **view.axes(f"claims.columns.{curve.x_name}", f"claims.columns.{curve.y_name}"),
            log_y=curve.log_y,
        )
    elif finding.bars:
        at = finding.columns.index(finding.bars)
        draw = partial(
            measured,
            [_label(view, row) for row in finding.rows],
            np.array([row.values[at] for row in finding.rows], float),
            title=view.t(f"claims.columns.{finding.bars}"),
        )
    else:
        return
    yield b.Chart("claims.picture", draw, view.t("claims.alt"))


def _label(view: View, row: ResultRow) -> str:
    """The name of a row's measurement."""
    return view.t(f"claims.rows.{row.name}", of=row.of)


def table_of(view: View, finding: Result) -> Iterator[b.Table | b.Note]:
    """All numbers of an experiment."""
    head = [view.t("claims.row"), *(view.t(f"claims.columns.{name}") for name in finding.columns)]
    yield b.Table(head, [[_label(view, row), *map(tabled, row.values)] for row in finding.rows])
    if any(math.isnan(value) for row in finding.rows for value in row.values):
        yield b.Note(view.t("claims.dash"))


def _numbers(view: View, finding: Result) -> dict[str, list[object]]:
    columns: dict[str, list[object]] = {
        view.t("claims.row"): [_label(view, row) for row in finding.rows]
    }
    for at, name in enumerate(finding.columns):
        columns[view.t(f"claims.columns.{name}")] = [float(row.values[at]) for row in finding.rows]
    return columns


EXHIBIT = Exhibit(compute, show, wait=Wait("claims.working"))
