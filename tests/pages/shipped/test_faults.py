"""Every fault of the Pitfalls page in every shipped design."""

import sys

import pytest
from designs import SHELF, designs

from explorer import library
from explorer.analysis.clinic import PITFALLS, symptom
from explorer.runs.trace import trace
from explorer.text import examples


@pytest.mark.parametrize("model", designs())
def test_every_fault_of_the_clinic_shows_in_every_design(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the page of a fault draws comes from here; test_clinic.py draws it."""
    monkeypatch.setattr(sys.modules[symptom.__module__], "MAX_NEW_TOKENS", 2)
    loaded = library.open_model(model, SHELF)
    traced = trace(loaded, next(iter(examples(model).values()))[0])
    for pitfall in PITFALLS:
        shown = f"{pitfall.id} {model}"
        assert pitfall.demonstrate(traced).figures, shown
        if pitfall.plant is not None:
            assert len(symptom(loaded, traced, pitfall).tokens) > 0, shown
