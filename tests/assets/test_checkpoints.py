"""The shipped checkpoints: they load, stay small, and their cards are right in both languages."""

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from typecheck import unchecked

from explorer import library, text
from explorer.analysis.atlas.store import BEST, to_json
from explorer.analysis.card import MOST_CHARS
from explorer.analysis.mask_tests.certify import FINDINGS, examine_text
from explorer.exhibits.atlas.measured import find_atlas
from explorer.library import open_model
from models import load_checkpoint
from models.checkpoint import CARD, CONFIG, TOKENIZER, WEIGHTS
from models.strategies import Beam
from models.training.evaluate import translate
from models.training.repetition import CONTINUATION, continued, repetition
from models.training.saving import SNAPSHOTS, snapshot_name, snapshots
from models.transformer import DecoderOnly, EncoderDecoder
from recipes.numbering import numbers as numbers_in

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


# What the shipped models write beside the app's examples: longer texts, numbers, a story.


# What each sentence of the text must leave in its translation.
LONGER = {
    "My brother works in Tokyo. He wants to buy a new house, but it is too expensive. "
    "I will go to see him next week.": ["东京", "房", "贵", "下周"],
    "I got up early this morning and drank a cup of coffee, and then I went to school by bus. "
    "My teacher was angry because I was late.": ["早", "咖啡", "学校", "老师", "迟到"],
}


def test_every_sentence_of_a_longer_text_is_translated() -> None:
    checkpoint = load_checkpoint(ASSETS / "checkpoints" / "en-zh")
    assert isinstance(checkpoint.model, EncoderDecoder)
    said = translate(checkpoint.model, checkpoint.tokenizer, list(LONGER), Beam(width=4))
    lost = [
        (translation, word)
        for words, translation in zip(LONGER.values(), said, strict=True)
        for word in words
        if word not in translation
    ]
    assert len(lost) <= 1, lost


# Sentences of ours with numbers as people write them, and what each must name.
NUMBERS = {
    "en-zh": {
        "We have 100 students.": [100],
        "She got married in 2015.": [2015],
        "I get up at half past seven.": [7],
        "I was born in 1990.": [1990],
        "It costs 25 dollars.": [25],
        "He is 47 years old.": [47],
        "The train leaves at 8:30.": [8],
        "My grandmother is eighty-six years old.": [86],
        "They have lived here for fifteen years.": [15],
        "I bought three apples and 12 eggs.": [3, 12],
        "The book has 418 pages.": [418],
        "The meeting starts at three o'clock.": [3],
    },
    "zh-en": {
        "我们有100个学生。": [100],
        "她2015年结婚了。": [2015],
        "我七点半起床。": [7],
        "他出生于1990年。": [1990],
        "它要25美元。": [25],
        "他47岁。": [47],
        "火车八点半开。": [8],
        "我奶奶八十六岁了。": [86],
        "他们在这里住了十五年。": [15],
        "我买了三个苹果和12个鸡蛋。": [3, 12],
        "这本书有418页。": [418],
        "会议三点开始。": [3],
    },
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_come_out_right(name: str) -> None:
    checkpoint = load_checkpoint(ASSETS / "checkpoints" / name)
    assert isinstance(checkpoint.model, EncoderDecoder)
    said = translate(checkpoint.model, checkpoint.tokenizer, list(NUMBERS[name]), Beam(width=4))
    named = zip(NUMBERS[name].items(), said, strict=True)
    wrong = {
        sentence: translation
        for (sentence, values), translation in named
        if not set(values) <= set(numbers_in(translation))
    }
    assert len(wrong) <= 1, wrong


def test_a_story_goes_on_and_not_round_in_circles() -> None:
    """Trained by likelihood alone it repeated 46 % of its 4-grams here."""
    checkpoint = load_checkpoint(ASSETS / "checkpoints" / "stories")
    assert isinstance(checkpoint.model, DecoderOnly)
    groups = tomllib.loads((ASSETS / "sentences" / "stories.toml").read_text(encoding="utf-8"))
    given = [
        checkpoint.model.with_marks("tgt", checkpoint.tokenizer.encode(beginning))
        for beginnings in groups.values()
        for beginning in beginnings
    ]
    rows = continued(checkpoint.model, given, CONTINUATION)
    assert repetition([row[len(some) :] for row, some in zip(rows, given, strict=True)]) < 0.15


# The masks of every shipped model hold every promise.


CORE = {"copy", "masked-en", "stories", "twin-learned"}
"""One of each design; `make sweep` examines all."""


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(each, marks=() if each.name in CORE else pytest.mark.sweep, id=each.name)
        for each in FOLDERS
    ],
)
def test_the_masks_of_each_hold_every_promise(folder: Path) -> None:
    loaded = open_model(folder)
    sentence = next(iter(text.examples(folder.name).values()))[0]
    with unchecked():  # shapes are checked on small models
        certificate = examine_text(loaded, sentence).certificate()
    assert [(each.name, each.where) for each in certificate.broken] == []
    # A model of one text has no cross-attention, and an encoder no future to hide, nor a cache.
    left_out = 0 if loaded.config.reads_source else 1 if loaded.config.is_causal else 5
    left_out += loaded.config.positions == "none"
    assert len(certificate.findings) == len(FINDINGS) - left_out


# The shipped atlases: small, of the shipped weights, and every sentence with its source.


NAMES = ("en-zh", "zh-en", "stories")


def test_all_of_them_together_are_less_than_a_megabyte() -> None:
    found = sorted(library.CHECKPOINTS.glob("*/atlas/*"))
    assert {path.parent.parent.name for path in found} == set(NAMES)
    assert all(path.name == "atlas.json" for path in found)
    assert sum(path.stat().st_size for path in found) <= 1_000_000


@pytest.mark.parametrize("name", NAMES)
def test_each_is_of_the_shipped_weights_and_credits_its_sentences(name: str) -> None:
    found = find_atlas(open_model(name))
    atlas = found.atlas
    assert atlas is not None
    assert found.path is not None
    assert to_json(atlas) == found.path.read_text(encoding="utf-8")
    assert all(len(best) == BEST for best in atlas.best)
    assert "CC BY 2.0 FR" in atlas.about.credit or "CDLA-Sharing-1.0" in atlas.about.credit
    if name != "stories":
        assert all("tatoeba.org" in text.credit for text in atlas.texts)
    assert atlas.counts["sentences"] > 20_000
    assert atlas.cost_sentences == 96
