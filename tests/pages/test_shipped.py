"""No page shows a broken frame for any shipped model: every part, aside, pitfall and claim."""

import sys
from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from explorer import library
from explorer.analysis.claims import CLAIMS, cost, positions
from explorer.analysis.clinic import PITFALLS, symptom
from explorer.pages import PAGES
from explorer.pages.cell.choices import ASIDES
from explorer.runs.trace import trace
from explorer.text import examples

Open = Callable[..., AppTest]
SHELF = library.CHECKPOINTS

VISITS: list[tuple[str, dict[str, str]]] = [
    *(
        (page.name, {"part": part})
        for page in PAGES
        for part in getattr(page.choices, "parts", ("",))
    ),
    *(("cell", {"aside": aside}) for aside in ASIDES),
    *(("claims", {"claim": claim.id, "guess": "true"}) for claim in CLAIMS if claim.own),
]
"""What every design is asked. Claims without `own` do not read the model: test_claims.py."""


def designs() -> list[str]:
    """One model per configuration: models with equal ones run the same code on equal shapes."""
    first: dict[str, str] = {}
    for name in library.list_models(SHELF):
        first.setdefault((SHELF / name / "config.json").read_text("utf-8"), name)
    return list(first.values())


def test_no_frame_breaks(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """All designs in one test, for they share what does not hang on the model."""
    if not designs():
        pytest.skip("no checkpoints are shipped here")
    monkeypatch.setattr(library, "CHECKPOINTS", SHELF)
    monkeypatch.setattr(cost, "N_TOKENS", 4)
    monkeypatch.setattr(positions, "STEPS", 1)
    broken = []
    for model in designs():
        for page, asked in VISITS:
            at = open_page(page, model=model, depth="1", **asked)
            broken += [f"{page} {asked} {model}: {each.message}" for each in at.exception]
    assert not broken


@pytest.mark.parametrize("model", designs())
def test_every_fault_of_the_clinic_shows_in_every_design(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the page of a fault draws comes from here; test_pages.py draws it."""
    monkeypatch.setattr(sys.modules[symptom.__module__], "MAX_NEW_TOKENS", 2)
    loaded = library.open_model(model, SHELF)
    traced = trace(loaded, next(iter(examples(model).values()))[0])
    for pitfall in PITFALLS:
        shown = f"{pitfall.id} {model}"
        assert pitfall.demonstrate(traced).figures, shown
        if pitfall.plant is not None:
            assert len(symptom(loaded, traced, pitfall).tokens) > 0, shown
