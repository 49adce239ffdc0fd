"""Rows of a word or two out of longer ones."""

import pytest

from recipes.shortening import short_rows

PAIRS = [
    ("Help!", "救命！"),
    ("Who?", "谁？"),
    ("No, I am not.", "不，我不是。"),
    ("No, thank you.", "不，谢谢。"),
    ("Yes, I know.", "是的，我知道。"),
    ("Tom is here, and so am I.", "汤姆在这里，我也在。"),
    ("Tom is here, and so are you.", "汤姆在这里，你也在。"),
    ("Without it, nothing works.", "没有它的话那可不行，什么都不能用。"),
    ("Without it, we are lost.", "没有它的话那可不行，我们就完了。"),
    ("Sit down!", "请坐下来！"),
    ("Old news.", "这已经是旧闻了，没有人想听。"),
]


def test_short_rows_come_with_either_mark_and_questions_stay_questions() -> None:
    assert set(short_rows(PAIRS[:2] * 2, 60, seed=1)) == {
        ("Help!", "救命！"),
        ("Help.", "救命。"),
        ("Who?", "谁？"),
    }


def test_what_stands_before_a_comma_is_a_row_where_two_pairs_agree() -> None:
    assert set(short_rows(PAIRS, 200, seed=1)) == {
        ("Help!", "救命！"),
        ("Help.", "救命。"),
        ("Who?", "谁？"),
        ("Sit down.", "请坐下来。"),
        ("Sit down!", "请坐下来！"),
        ("No.", "不。"),
        ("No!", "不！"),
    }


def test_what_is_said_more_often_is_drawn_more_often() -> None:
    pairs = [*PAIRS[:2], *[PAIRS[2]] * 6]
    drawn = short_rows(pairs, 400, seed=1)
    assert sum(source in ("No.", "No!") for source, _ in drawn) > 250


def test_the_seed_decides_and_directions_are_alike() -> None:
    turned = [(target, source) for source, target in PAIRS]
    rows = short_rows(PAIRS, 40, seed=1)
    assert rows == short_rows(PAIRS, 40, seed=1)
    assert rows != short_rows(PAIRS, 40, seed=2)
    assert [(target, source) for source, target in rows] == short_rows(turned, 40, seed=1)


def test_a_corpus_without_short_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="no pair has 2 words or fewer"):
        short_rows(PAIRS[5:-2] + PAIRS[-1:], 1, seed=1)
