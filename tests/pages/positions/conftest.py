"""Models with every kind of positions, for the tests of the Positions page."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from explorer import library
from explorer.exhibits.positions import learned
from models.config import ModelConfig
from models.training.saving import save_checkpoint
from models.training.vocabulary import train_tokenizer
from models.transformer import build_model

SEED = 1
WRITER = {"family": "decoder-only", "norm_placement": "pre", "final_norm": True}


def _begun(folder: Path) -> None:
    """A model with learned positions from a known seed, the first 7 of the source moved."""
    tokenizer = train_tokenizer(["She reads a book."] * 2, vocab_size=60)
    sizes = {"d_model": 24, "n_layers": 1, "n_heads": 4, "d_ff": 20, "n_ctx": 40}
    config = ModelConfig(vocab_size=tokenizer.vocab_size, positions="learned", **sizes)
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        model = build_model(config).requires_grad_(False)
    model.get_parameter("encoder.positions.weight")[:7] *= 1.25
    save_checkpoint(folder, model, tokenizer)


@pytest.fixture(scope="session")
def wide_shelf(tmp_path_factory: pytest.TempPathFactory, save_small: Callable[..., None]) -> Path:
    """Translators and writers with all kinds of positions."""
    folder = tmp_path_factory.mktemp("positions")
    save_small(folder / "en-zh")
    save_small(folder / "writer", **WRITER)
    save_small(folder / "turner", positions="rotary", **WRITER)
    save_small(folder / "placeless", positions="none")
    save_small(folder / "alibi", positions="alibi", **WRITER)
    save_small(folder / "t5", positions="t5")
    save_small(folder / "twin-learned", positions="learned")
    _begun(folder / "twin-right")
    return folder


@pytest.fixture(autouse=True)
def _use_wide_shelf(_use_shelf: None, wide_shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "CHECKPOINTS", wide_shelf)
    monkeypatch.setitem(learned.SEEDS, "twin-right", SEED)
