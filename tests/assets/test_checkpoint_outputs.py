"""What the shipped models write beside the app's examples: longer texts, numbers, a story."""

import tomllib
from pathlib import Path

import pytest

from models import load_checkpoint
from models.strategies import Beam
from models.training.evaluate import translate
from models.training.repetition import CONTINUATION, continued, repetition
from models.transformer import DecoderOnly, EncoderDecoder
from recipes.numbering import numbers

ASSETS = Path(__file__).parents[2] / "assets"


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
        if not set(values) <= set(numbers(translation))
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
