"""The rows that a recipe makes of those of its file: joined, shortened, renamed, and renumbered."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from models.tokenizer import Tokenizer
from models.training.corpus import Row
from models.training.home import asset
from models.training.recipe import read_recipe
from recipes import CURRICULUM
from recipes.glossing import glosses_of
from recipes.joining import MOST, joined_pairs
from recipes.ngram import Trigram
from recipes.numbering import MOST as LARGEST, in_chinese, in_english, numbered_rows, numbers
from recipes.renaming import FEWEST, names_of, renamed_texts
from recipes.shortening import short_rows

JOINED = [
    ("Tom sleeps.", "汤姆在睡觉。"),
    ("We ate rice with Tom.", "我们和汤姆吃了米饭。"),
    ("Are we late?", "我们迟到了吗？"),
    ("I think we are.", "我想是的。"),
    ("What a day!", "多好的一天！"),
]


def parts(text: str, of: list[str]) -> list[str]:
    """The texts `of` in the order in which they stand in `text`, capitals and stops not counted."""
    found = [(text.lower().find(each[:-1].lower()), each) for each in of]
    return [each for place, each in sorted(found) if place >= 0]


def test_both_sides_hold_the_same_pairs_as_sentences_or_clauses():
    rows = joined_pairs(JOINED, 60, seed=1)
    assert len(rows) == 60
    sizes = set()
    for source, target in rows:
        sources = parts(source, [pair[0] for pair in JOINED])
        assert parts(target, [pair[1] for pair in JOINED]) == [dict(JOINED)[s] for s in sources]
        sizes.add(len(sources))
    assert sizes == {2, 3, 4}
    # Inside a text "Tom" has its capital, "we" none; that "We" begins more of them says nothing.
    known = [*JOINED, ("There we are with Tom.", "我们和汤姆在那儿。")]
    known += [(f"We {verb}.", "我们在这儿。") for verb in ("swim", "sing", "read")]
    rows = joined_pairs(known, 6000, seed=1)
    assert ("Tom sleeps. We ate rice with Tom.", "汤姆在睡觉。我们和汤姆吃了米饭。") in rows
    assert ("Tom sleeps, and we ate rice with Tom.", "汤姆在睡觉，我们和汤姆吃了米饭。") in rows
    assert ("We ate rice with Tom, and Tom sleeps.", "我们和汤姆吃了米饭，汤姆在睡觉。") in rows
    rows = joined_pairs(JOINED, 200, seed=1)
    assert any("Are we late? " in source for source, _ in rows)
    assert not any("late, and" in source or "吗，" in target for source, target in rows)


CATS = [
    ("The cat sleeps.", "猫睡觉。"),
    ("Two cats sing.", "猫唱歌。"),
    ("A cat reads.", "猫读书。"),
    ("Cats swim.", "猫游泳。"),
    ("My cat runs.", "猫跑步。"),
    ("Her pet runs.", "猫跑步。"),
]


def test_a_gloss_is_in_most_translations_and_inflections_count_as_one_word():
    tokenizer = Tokenizer.load(asset("checkpoints", "en-zh", "tokenizer.json"))
    assert glosses_of(CATS, tokenizer) == {}  # too few pairs with an English token
    back = [(target, source) for source, target in CATS]
    assert glosses_of(back, tokenizer) == {"猫": ("cat", 5 / 6)}
    unsure = [*back, *[("猫跑步。", "Her pet runs.")] * 5]  # 6 of 11 translations lack the cat
    assert glosses_of(unsure, tokenizer)["猫"] == ("her pet runs", 6 / 11)
    assert "猫" not in glosses_of([*unsure, *[("猫跑步。", "So it goes.")] * 2], tokenizer)


SHORT = [
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


def test_short_rows_come_with_either_mark_also_from_before_a_comma():
    assert set(short_rows(SHORT[:2] * 2, 60, seed=1)) == {
        ("Help!", "救命！"),
        ("Help.", "救命。"),
        ("Who?", "谁？"),
    }
    assert set(short_rows(SHORT, 200, seed=1)) == {
        ("Help!", "救命！"),
        ("Help.", "救命。"),
        ("Who?", "谁？"),
        ("Sit down.", "请坐下来。"),
        ("Sit down!", "请坐下来！"),
        ("No.", "不。"),
        ("No!", "不！"),
    }


ONE = "Then {0} saw a cat. {1} said that {0} liked it."
TWO = "Then Tom met Anna. She saw that Tom was sad, so Anna gave Tom a cake."
PEOPLE = {"Tom": "He", "Ben": "He", "Sam": "He", "Anna": "She", "Lucy": "She", "Mia": "She"}
TOLD = [
    *(ONE.format(name, pronoun) for name, pronoun in PEOPLE.items() for _ in range(FEWEST)),
    *["So Joe sat. The cat saw him and his dog."] * FEWEST,
    *["So Kate sat. The cat saw her, and the dog was hers."] * FEWEST,
    *["So Rex ran, and Rex said that he liked it."] * (FEWEST - 1),  # too seldom
    *["So Kim ran. He sat, and he and she sang."] * FEWEST,  # not twice as often "he"
    *["So Pat ran. She sat, and she and he sang."] * FEWEST,
    *["He and his dog called a man Mr in the wood."] * FEWEST,
    *["Then she saw the Queen, and the queen saw her."] * FEWEST,
    # With two names in it a text does not say whose its pronouns are.
    *["So Tom saw Anna. She sang and she sang, and she sat."] * FEWEST,
    *["So Tom saw Anna. He sang and he sang, and he sat, and he ran, and he slept."] * FEWEST,
    "The clock went ben, ben, ben, ben, ben.",  # that is still one text only
]


def test_names_are_found_with_their_pronouns_and_become_others_of_their_kind():
    assert names_of(TOLD) == [["Ben", "Joe", "Sam", "Tom"], ["Anna", "Kate", "Lucy", "Mia"]]
    he, she = names_of(TOLD)
    seen = set()
    for text in renamed_texts([*TOLD, TWO], 3000, seed=1):
        if not text.startswith("Then") or "met" not in text:
            continue
        first, second = re.findall(r"[A-Z][a-z]+", text)[1:3]
        assert first in he
        assert second in she
        assert text == TWO.replace("Tom", first).replace("Anna", second)
        seen.add((first, second))
    assert len(seen) > 6


MIXED = [
    ("I see 3 dogs.", "我看见三条狗。"),
    ("Help!", "救命！"),
    ("No, thank you.", "不，谢谢。"),
    ("We are late.", "我们迟到了。"),
]
ROWS: list[Row] = [*MIXED]


def more_rows(rows: list[Row], steps: dict[str, int], seed: int) -> list[Row]:
    """The rows that a recipe with these steps adds."""
    changes = [f"data.{name}={n}" for name, n in steps.items()]
    recipe = read_recipe("en-zh-short", [*changes, f"training.seed={seed}"])
    return CURRICULUM.more_rows(recipe, rows)


def test_each_kind_of_row_is_made_of_what_it_needs():
    numbered = [(source, target) for source, target, _ in numbered_rows(MIXED, 5, seed=3)]
    assert more_rows(ROWS, {}, seed=3) == []
    assert more_rows(ROWS, {"short": 6, "numbered": 5, "joined": 4}, seed=3) == [
        *joined_pairs(MIXED, 4, seed=3),
        *numbered,
        *short_rows(MIXED, 6, seed=3),
    ]
    for name, n in (("joined", 4), ("numbered", 5), ("short", 6)):
        assert len(more_rows(ROWS, {name: n}, seed=3)) == n
    texts = [f"So {name} came. He sang." for name in ("Tom", "Ben", "Sam") for _ in range(12)]
    made = more_rows([*texts, *ROWS], {"renamed": 5}, seed=3)
    assert made == renamed_texts(texts, 5, seed=3)
    assert len(made) == 5


NUMBERED = [("I see 3 dogs.", "我看见三条狗。"), ("It was 1945.", "那是1945年。")]
STEPS: list[tuple[Callable[..., list[Any]], list[Any], int]] = [
    (joined_pairs, JOINED, 40),
    (short_rows, SHORT, 40),
    (numbered_rows, NUMBERED, 50),
    (renamed_texts, TOLD, 90),
]


@pytest.mark.parametrize(("step", "rows", "n"), STEPS)
def test_the_seed_decides_and_directions_are_alike(step, rows, n):
    made = step(rows, n, seed=1)
    assert len(made) == n
    assert made == step(rows, n, seed=1)
    assert made != step(rows, n, seed=2)
    if step is not renamed_texts:
        turned = step([(target, source) for source, target in rows], n, seed=1)
        assert [(source, target, *more) for target, source, *more in turned] == made


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: joined_pairs(JOINED[: MOST - 1], 1, seed=1), "3 pairs are too few"),
        (lambda: short_rows(SHORT[5:-2] + SHORT[-1:], 1, seed=1), "no pair has 2 words or fewer"),
        (lambda: renamed_texts(["Then Tom ran.", "So."], 3, seed=1), "in at least 12 of these 2"),
        (lambda: read_recipe("copy", ["data.joined=3"]), "joined is 3"),
        (lambda: read_recipe("en-zh", ["data.short=-1"]), "short is -1"),
    ],
)
def test_rows_that_cannot_be_made_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# Numbers in English and Chinese: read, written, and replaced by others on both sides.
MOST_OF_IT = "nine hundred and ninety-nine"


@pytest.mark.parametrize(
    ("number", "english", "chinese"),
    [
        (0, "zero", "零"),
        (10, "ten", "十"),
        (15, "fifteen", "十五"),
        (40, "forty", "四十"),
        (100, "one hundred", "一百"),
        (105, "one hundred and five", "一百零五"),
        (110, "one hundred and ten", "一百一十"),
        (365, "three hundred and sixty-five", "三百六十五"),
        (1005, "one thousand and five", "一千零五"),
        (1050, "one thousand and fifty", "一千零五十"),
        (80_000, "eighty thousand", "八万"),
        (100_500, "one hundred thousand five hundred", "十万零五百"),
        (LARGEST, f"{MOST_OF_IT} thousand {MOST_OF_IT}", "九十九万九千九百九十九"),
    ],
)
def test_numbers_are_said_as_people_say_them(number, english, chinese):
    assert in_english(number) == english
    assert in_chinese(number) == chinese


@given(st.integers(2, 9999) | st.integers(10, 999).map(lambda n: 1000 * n))
def test_what_was_written_is_read_again(number):
    for written in (str(number), f"{number:,}", in_english(number), in_chinese(number)):
        assert numbers(f"({written})") == [number], written
    assert numbers(in_english(number).capitalize() + " of us.") == [number]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Two of the 5,000 came at 7:30.", [2, 5000, 7, 30]),
        ("a hundred times, a thousand and one nights", [100, 1001]),
        ("两个人，两百块，二十二岁", [2, 200, 22]),
        ("It is 8.8, in the 1990s, on the 3rd, A4, 1,00.", []),  # no number alone
        ("One of us, 一个人, 3千, 四十万亿", []),  # "one" is seldom a number
        ("I have none, often, weighty words.", []),
        ("二〇一五年", []),  # its digits are no numbers of their own
    ],
)
def test_a_number_is_read_where_it_stands_alone(text, found):
    assert numbers(text) == found


def replaced(english: str, chinese: str, n: int = 300) -> list[tuple[str, str, int]]:
    return numbered_rows([(english, chinese)], n, seed=1)


def test_both_sides_get_the_same_other_number_and_the_clock_stays_possible():
    rows = replaced("He has 20 children and a dog.", "他有二十个孩子和一条狗。")
    writings = set()
    for english, chinese, number in rows:
        assert 3 <= number < 100
        said = re.fullmatch(r"He has (.+) children and a dog\.", english)
        told = re.fullmatch(r"他有(.+)个孩子和一条狗。", chinese)
        assert said
        assert told
        assert (said[1], told[1]) in (
            (str(number), str(number)),
            (in_english(number), in_chinese(number)),
        )
        writings.add(said[1].isdecimal())
    assert writings == {True, False}
    assert len({number for *_, number in rows}) > 60
    assert {english for english, *_ in replaced("It is six.", "现在六点。")} == {
        f"It is {in_english(number)}." for number in range(3, 13)
    }
    for english, chinese, number in replaced("It is 6.", "现在六点。", 40):
        assert (english, chinese) == (f"It is {number}.", f"现在{in_chinese(number)}点。")
    for english, *_ in replaced("It is 2:45.", "现在是2：45。"):
        hour, minute = re.findall(r"\d+", english)
        assert (int(hour) <= 12 and minute == "45") or (hour == "2" and int(minute) < 60)


@pytest.mark.parametrize(
    ("english", "chinese", "fewest", "most"),
    [
        ("We left at 6 o'clock.", "我们六点离开。", 3, 12),
        ("We left at six.", "我们六时离开。", 3, 12),
        ("It starts at half past six.", "六点半开始。", 3, 12),
        ("It is 2:45.", "现在是两点四十五分。", 3, 59),
        ("It is 7:44 a.m.", "现在是上午7：44。", 3, 59),
        ("Come on March 10.", "请三月10日来。", 3, 28),
        ("Come on May 20.", "请五月20号来。", 3, 28),
        ("It ended in 1945.", "1945年结束了。", 1000, 2099),
        ("It lasted 20 years.", "持续了20年。", 3, 99),
        ("She has seven hours.", "她有七小时。", 3, 99),
        ("It cost 1500 dollars.", "花了1500美元。", 100, 999_999),
        ("It took six days.", "我用了六时间。", 3, 99),
        ("It cost 500 dollars.", "花了五百美元。", 100, 999_999),
    ],
)
def test_a_number_is_replaced_by_one_of_its_kind(english, chinese, fewest, most):
    drawn = [number for *_, number in replaced(english, chinese)]
    assert fewest <= min(drawn)
    assert max(drawn) <= most
    assert max(drawn) - min(drawn) > (most - fewest) // 2


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("There are 5 or 5.", "有五个或者五个。"),  # which of them?
        ("He is over sixty.", "他六十多岁了。"),
        ("5 and 5 of them.", "有五个。"),
        ("He has five.", "五月有五个。"),
        ("He has one dog.", "他有一条狗。"),
        ("She has three.", "她有四个。"),
    ],
)
def test_what_cannot_be_told_is_left_alone(english, chinese):
    with pytest.raises(ValueError, match="no pair names the same number"):
        replaced(english, chinese, 1)


def test_one_probability_by_hand():
    # "1 1 3" and "1 1 4" once each. Behind 1: 3 and 4, each after one context. Alone: 3 stands
    # behind one token (1), 4 behind two (1, 3).
    model = Trigram([(3,), (4,), (3, 4)], vocab_size=5, bos=1)
    alone = (1 - 0.75) / 3 + 0.75 * 2 / 3 / 5
    behind_1 = (1 - 0.75) / 2 + 0.75 * 2 / 2 * alone
    expected = (2 - 0.75) / 3 + 0.75 * 2 / 3 * behind_1
    assert model.prob((1, 1), 3) == pytest.approx(expected)
    with pytest.raises(ValueError, match="needs text"):
        Trigram([], vocab_size=5, bos=1)
