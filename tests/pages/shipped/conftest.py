"""Every shipped design on a page: what is measured repeatedly is measured once, and briefly."""

from collections.abc import Callable

import pytest
from designs import SHELF, designs
from shown import Open

from explorer import library
from explorer.analysis.claims import cost, positions, training


@pytest.fixture
def broken_frames(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> Callable[[list[tuple[str, dict[str, str]]]], list[str]]:
    """broken_frames(visits, models): the errors that these models meet on them."""
    if not designs():
        pytest.skip("no checkpoints are shipped here")
    monkeypatch.setattr(library, "CHECKPOINTS", SHELF)
    monkeypatch.setattr(cost, "N_TOKENS", 4)
    monkeypatch.setattr(cost, "TRIES", 1)
    monkeypatch.setattr(positions, "STEPS", 1)
    monkeypatch.setattr(training, "SEEDS", (0,))

    def errors(visits: list[tuple[str, dict[str, str]]], models: list[str]) -> list[str]:
        found = []
        for model in models:
            for page, asked in visits:
                at = open_page(page, model=model, depth="1", **asked)
                found += [f"{page} {asked} {model}: {each.message}" for each in at.exception]
        return found

    return errors
