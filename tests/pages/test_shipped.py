"""No page shows a broken frame for any shipped model: every part, aside, pitfall and claim."""

import sys
from collections.abc import Callable
from dataclasses import asdict

import pytest
from streamlit.testing.v1 import AppTest

from explorer import library
from explorer.analysis.claims import CLAIMS, cost, positions, training
from explorer.analysis.clinic import PITFALLS, symptom
from explorer.pages import PAGES
from explorer.pages.cell.choices import ASIDES
from explorer.runs.trace import trace
from explorer.text import examples
from models.config import ModelConfig

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


SIZES = {"vocab_size", "d_model", "n_layers", "n_encoder_layers", "n_heads", "d_ff", "n_ctx"}


def designs() -> list[str]:
    """One model per design: models that differ in sizes alone run the same code.

    The one with the shortest context stands for the others, then the one with the fewest layers:
    sizes that are too small are what code breaks on.
    """
    found: dict[str, tuple[int, int, str]] = {}
    for name in library.list_models(SHELF):
        config = ModelConfig.from_json((SHELF / name / "config.json").read_text("utf-8"))
        kinds = {key: value for key, value in asdict(config).items() if key not in SIZES}
        model = (config.n_ctx, config.n_layers, name)
        found[str(kinds)] = min(model, found.get(str(kinds), model))
    return [name for *_, name in found.values()]


def test_no_frame_breaks(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """All designs in one test, for they share what does not hang on the model."""
    if not designs():
        pytest.skip("no checkpoints are shipped here")
    monkeypatch.setattr(library, "CHECKPOINTS", SHELF)
    monkeypatch.setattr(cost, "N_TOKENS", 4)
    monkeypatch.setattr(cost, "TRIES", 1)
    monkeypatch.setattr(positions, "STEPS", 1)
    monkeypatch.setattr(training, "SEEDS", (0,))
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
    """What the page of a fault draws comes from here; test_clinic.py draws it."""
    monkeypatch.setattr(sys.modules[symptom.__module__], "MAX_NEW_TOKENS", 2)
    loaded = library.open_model(model, SHELF)
    traced = trace(loaded, next(iter(examples(model).values()))[0])
    for pitfall in PITFALLS:
        shown = f"{pitfall.id} {model}"
        assert pitfall.demonstrate(traced).figures, shown
        if pitfall.plant is not None:
            assert len(symptom(loaded, traced, pitfall).tokens) > 0, shown
