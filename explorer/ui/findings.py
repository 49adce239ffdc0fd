"""The experiment of a claim, run once, and its numbers as a small table, for every page."""

import math
from collections.abc import Callable, Iterable

import streamlit as st

from explorer.analysis.claims import CLAIMS, Finding, ResultRow
from explorer.engine.cache import Run, open_model, trace
from explorer.engine.caching import cached
from explorer.exhibits.view import View
from explorer.numbers import tabled
from explorer.ui.tables import table


@cached
def finding_of(run: Run, claim: str, *, progress: Callable[[float], None] | None = None) -> Finding:
    """The experiment of a claim on one run; `progress` gets the fraction done, 0 to 1.

    Raises InputProblem.
    """
    chosen = next(each for each in CLAIMS if each.id == claim)
    return chosen.test(open_model(run.model), trace(run), progress or (lambda done: None))


def finding_label(view: View, row: ResultRow) -> str:
    """The name of a row's measurement, in the user's language."""
    return view.t(f"claims.rows.{row.name}", of=row.of)


def finding_words(view: View, claim: str, finding: Finding) -> str:
    """The reason for the verdict on a claim, with the numbers of this experiment."""
    numbers = {name: tabled(value) for name, value in finding.numbers.items()}
    return in_a_row(view.t(f"claims.{claim}.{why}", **numbers) for why in finding.why)


def in_a_row(sentences: Iterable[str]) -> str:
    """Join sentences; no space after Chinese full stops and colons."""
    return " ".join(sentences).replace("。 ", "。").replace("： ", "：")


def finding_table(view: View, finding: Finding) -> None:
    """All numbers of an experiment."""
    head = [view.t("claims.row"), *(view.t(f"claims.columns.{name}") for name in finding.columns)]
    rows = [
        [finding_label(view, row), *(tabled(value) for value in row.values)] for row in finding.rows
    ]
    table(head, rows)
    if any(math.isnan(value) for row in finding.rows for value in row.values):
        st.caption(view.t("claims.dash"))
