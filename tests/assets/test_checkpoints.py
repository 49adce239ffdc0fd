"""The shipped checkpoints: they load, stay small, and their cards are right in both languages."""

import re
from collections import Counter
from pathlib import Path

import pytest

from explorer import text
from explorer.analysis.card import MOST_CHARS
from models import load_checkpoint
from models.checkpoint import CARD, CONFIG, TOKENIZER, WEIGHTS
from models.training.saving import SNAPSHOTS, snapshot_name, snapshots

ASSETS = Path(__file__).parents[2] / "assets"


FOLDERS = sorted(path.parent for path in (ASSETS / "checkpoints").glob(f"*/{CONFIG}"))


MEGABYTE = 1_000_000
HEADINGS = {"Data": "数据", "Training": "训练", "Scores": "成绩", "Known weaknesses": "已知的不足"}


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


ATLAS = "atlas"
"""The folder of what each head does over a corpus, which some have."""


def test_all_of_them_stay_small() -> None:
    assert "en-zh" in [folder.name for folder in FOLDERS]  # the default model
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


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_example_sentence_holds_an_unknown_character(folder: Path) -> None:
    tokenizer = load_checkpoint(folder).tokenizer
    sentences = [s for group in text.examples(folder.name).values() for s in group]
    assert {s: tokenizer.unknown(s) for s in sentences if tokenizer.unknown(s)} == {}


def cards(folder: Path) -> tuple[str, str]:
    return tuple(  # type: ignore[return-value]
        (folder / name).read_text(encoding="utf-8") for name in (CARD, "CARD.zh.md")
    )


def numbers(text: str) -> list[str]:
    return re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?", text)


def commands(card: str) -> list[str]:
    """Its lines of code and the code within its lines, however these are broken."""
    inline = [" ".join(each.split()) for each in re.findall(r"`([^`]+)`", card)]
    return sorted([*re.findall(r"(?m)^ {4}.*$", card), *inline])


def rows(card: str) -> list[list[str]]:
    """The numbers of its tables, row by row."""
    return [numbers(line) for line in re.findall(r"(?m)^\|.*\|$", card)]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_both_cards_say_the_same_and_are_not_cut(folder: Path) -> None:
    english, chinese = cards(folder)
    assert max(len(english), len(chinese)) < MOST_CHARS
    assert Counter(numbers(chinese)) == Counter(numbers(english))
    assert commands(chinese) == commands(english)
    assert rows(chinese) == rows(english)
    assert chinese.startswith(f"# {folder.name}：")
    levels = [re.findall(r"(?m)^(#+) ", card) for card in (english, chinese)]
    assert levels[0] == levels[1]
    for heading, said in HEADINGS.items():
        assert f"## {heading}\n" in english
        assert f"## {said}\n" in chinese
    assert english.count("\n- ") == chinese.count("\n- ")
