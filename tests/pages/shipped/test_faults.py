"""Every fault of the Pitfalls page in every shipped model."""

import sys

import pytest
from designs import CASES, SHELF, Visit, sweep

from explorer import library
from explorer.analysis.clinic import PITFALLS, symptom
from explorer.exhibits.clinic.planted import compute
from explorer.runs.trace import trace
from explorer.text import examples


@sweep(CASES)
def test_every_fault_of_the_clinic_shows(
    model: str, visits: list[Visit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the page of a fault draws comes from here; test_clinic.py draws it."""
    monkeypatch.setattr(sys.modules[symptom.__module__], "MAX_NEW_TOKENS", 2)
    loaded = library.open_model(model, SHELF)
    traced = trace(loaded, next(iter(examples(model).values()))[0])
    cases = [asked["case"] for _, asked in visits]
    for pitfall in (each for each in PITFALLS if each.id in cases):
        shown = f"{pitfall.id} {model}"
        assert pitfall.demonstrate(traced).figures, shown
        found = compute(loaded, traced, pitfall.id, lambda done, total: None)
        if found is None:  # a model without what the bug needs cannot have it
            assert pitfall.plant is None or pitfall.needs, shown
        else:
            assert len(found.tokens) > 0, shown
