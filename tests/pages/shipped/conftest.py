"""Every shipped model on a page: what is measured repeatedly is measured once, and briefly."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from designs import SHELF, Visit
from shown import Open

from explorer import library
from explorer.analysis.claims import BY_ID, CLAIMS, Claim, Result, cost, positions, training
from explorer.engine.caching import Store, budget
from explorer.runs.passes import finished

FOUND: dict[str, Result] = {}
"""What was found by claims that train models of their own, by the claim's id."""


def _once(claim: Claim) -> Claim:
    """The claim; where it trains models of its own, once for all models that are opened."""
    if claim.own or not claim.slow:
        return claim

    def test(*given: Any) -> Result:
        if claim.id not in FOUND:
            FOUND[claim.id] = finished(claim.steps(*given))
        return FOUND[claim.id]

    return replace(claim, test=test)


@pytest.fixture(scope="session")
def store() -> Store:
    """A model that was opened for one test is open for the next."""
    return Store(budget())


@pytest.fixture
def broken_frames(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> Callable[[list[Visit], str], list[str]]:
    """broken_frames(visits, model): the errors that this model meets on them."""
    monkeypatch.setattr(library, "CHECKPOINTS", SHELF)
    for claim in CLAIMS:
        monkeypatch.setitem(BY_ID, claim.id, _once(claim))
    monkeypatch.setattr(cost, "N_TOKENS", 4)
    monkeypatch.setattr(cost, "TRIES", 1)
    monkeypatch.setattr(positions, "STEPS", 1)
    monkeypatch.setattr(training, "SEEDS", (0,))

    def errors(visits: list[Visit], model: str) -> list[str]:
        found = []
        for page, asked in visits:
            at = open_page(page, model=model, depth="1", **asked)
            found += [f"{page} {asked} {model}: {each.message}" for each in at.exception]
        return found

    return errors
