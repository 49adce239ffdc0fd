"""The cards of the shipped models: the Chinese one says the same as the English one."""

import re
from collections import Counter
from pathlib import Path

import pytest

from explorer.analysis.card import MOST_CHARS
from models.checkpoint import CARD, CONFIG
from models.training.home import asset

FOLDERS = sorted(path.parent for path in Path(asset("checkpoints")).glob(f"*/{CONFIG}"))
HEADINGS = {"Data": "数据", "Training": "训练", "Scores": "成绩", "Known weaknesses": "已知的不足"}


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
def test_both_cards_have_the_same_numbers_and_commands(folder: Path) -> None:
    english, chinese = cards(folder)
    assert Counter(numbers(chinese)) == Counter(numbers(english))
    assert commands(chinese) == commands(english)
    assert rows(chinese) == rows(english)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_both_cards_have_the_same_sections(folder: Path) -> None:
    english, chinese = cards(folder)
    assert chinese.startswith(f"# {folder.name}：")
    levels = [re.findall(r"(?m)^(#+) ", card) for card in (english, chinese)]
    assert levels[0] == levels[1]
    for heading, said in HEADINGS.items():
        assert f"## {heading}\n" in english
        assert f"## {said}\n" in chinese
    assert english.count("\n- ") == chinese.count("\n- ")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_card_is_cut(folder: Path) -> None:
    assert max(map(len, cards(folder))) < MOST_CHARS
