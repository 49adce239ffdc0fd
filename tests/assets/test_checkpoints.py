"""The shipped checkpoints: they load, stay small, and their cards are right."""

import re
from pathlib import Path

import pytest

from explorer import text
from models import load_checkpoint
from models.checkpoint import CARD, CONFIG, TOKENIZER, WEIGHTS
from models.training.saving import SNAPSHOTS, snapshot_name, snapshots

ASSETS = Path(__file__).parents[2] / "assets"


FOLDERS = sorted(path.parent for path in (ASSETS / "checkpoints").glob(f"*/{CONFIG}"))


MEGABYTE = 1_000_000


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


ATLAS = "atlas"
"""The folder of what each head does over a corpus, which some have."""


def test_the_default_model_is_there() -> None:
    assert "en-zh" in [folder.name for folder in FOLDERS]


def test_all_of_them_stay_small() -> None:
    assert all(size(folder) <= 25 * MEGABYTE for folder in FOLDERS)
    assert sum(map(size, FOLDERS)) <= 64 * MEGABYTE


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_loads_and_its_card_gives_its_size(folder: Path) -> None:
    files = {CARD, "CARD.zh.md", CONFIG, TOKENIZER, WEIGHTS}
    assert {path.name for path in folder.iterdir()} - {SNAPSHOTS, ATLAS} == files
    for step in snapshots(folder):
        load_checkpoint(folder, f"{SNAPSHOTS}/{snapshot_name(step)}")
    checkpoint = load_checkpoint(folder)
    n_parameters = sum(p.numel() for p in checkpoint.model.parameters())
    card = (folder / CARD).read_text(encoding="utf-8")
    stated = re.search(r"([\d,]+)\s+parameters", card)
    assert stated is not None
    assert int(stated[1].replace(",", "")) == n_parameters
    stated = re.search(r"([\d.]+)\s+MB", card)
    assert stated is not None
    model = size(folder) - size(folder / ATLAS)
    assert float(stated[1]) == round(model / MEGABYTE, 1)
    for heading in ("## Data", "## Training", "## Scores", "## Known weaknesses"):
        assert heading in card


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_example_sentence_holds_an_unknown_character(folder: Path) -> None:
    tokenizer = load_checkpoint(folder).tokenizer
    sentences = [s for group in text.examples(folder.name).values() for s in group]
    assert {s: tokenizer.unknown(s) for s in sentences if tokenizer.unknown(s)} == {}
