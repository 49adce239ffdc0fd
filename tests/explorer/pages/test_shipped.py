"""Every page of every shipped model: all of it in the sweep, a share of it in each run.

What is measured repeatedly is measured once, and briefly.
"""

from dataclasses import replace
from inspect import isgeneratorfunction

import pytest
from designs import VISITS, shares

from explorer.analysis.cases import BY_ID, CLAIMS, Case, Result, compared, training
from explorer.analysis.cases.case import inputs
from explorer.engine.caching import Store, budget
from explorer.runs.passes import walked

WITHOUT_CORE = {
    *("alignment", "circuits", "claims", "trained", "training", "tour", "bugs", "fixed")
}
"""Subjects that are asked in the sweep only."""
FOUND: dict[str, Result] = {}
"""What was found by claims that train models of their own, by the claim's id."""


def _once(claim: Case) -> Case:
    """The claim; where it trains models of its own, once for all models that are opened."""
    if inputs(claim.measure, True, True) or not isgeneratorfunction(claim.measure):
        return claim

    def measure() -> Result:
        if claim.id not in FOUND:
            FOUND[claim.id] = walked(claim.measure())
        return FOUND[claim.id]

    return replace(claim, measure=measure)


@pytest.fixture(scope="session")
def store() -> Store:
    """A model that was opened for one test is open for the next."""
    return Store(budget())


@pytest.mark.parametrize(
    ("model", "visits"),
    [
        case
        for about, visits in VISITS.items()
        for case in shares(visits, about not in WITHOUT_CORE, about)
    ],
)
def test_no_page_shows_an_exception(open_page, shipped, monkeypatch, model, visits):
    for claim in CLAIMS:
        monkeypatch.setitem(BY_ID, claim.id, _once(claim))
    monkeypatch.setattr(compared, "STEPS", 1)
    monkeypatch.setattr(training, "SEEDS", (0,))
    for page, asked in visits:
        open_page(page, model=model, depth="1", **asked)
