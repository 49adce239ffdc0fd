"""Models with every norm placement, for the tests of the Blocks page."""

from collections.abc import Callable
from pathlib import Path

import pytest

from explorer import library

MODERN = {
    "family": "decoder-only",
    "norm": "rmsnorm",
    "norm_placement": "pre",
    "final_norm": True,
    "ffn": "swiglu",
}


@pytest.fixture(scope="session")
def wide_shelf(tmp_path_factory: pytest.TempPathFactory, save_small: Callable[..., None]) -> Path:
    """A translator, a modern writer, and three twins that differ in where their norm stands."""
    folder = tmp_path_factory.mktemp("blocks")
    save_small(folder / "en-zh")
    save_small(folder / "modern", **MODERN)
    for name, place in (("post", "post"), ("pre", "pre"), ("branch", "sublayer")):
        save_small(folder / f"twin-deep-{name}", norm_placement=place, n_encoder_layers=2)
    return folder


@pytest.fixture(autouse=True)
def _use_wide_shelf(_use_shelf: None, wide_shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "CHECKPOINTS", wide_shelf)
