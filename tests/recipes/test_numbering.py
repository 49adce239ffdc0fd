"""Numbers in English and Chinese: read, written, and replaced by others on both sides."""

import re

import pytest
from hypothesis import given, strategies as st

from recipes.numbering import MOST, in_chinese, in_english, numbered_rows, numbers


@pytest.mark.parametrize(
    ("number", "english", "chinese"),
    [
        (0, "zero", "零"),
        (9, "nine", "九"),
        (10, "ten", "十"),
        (15, "fifteen", "十五"),
        (40, "forty", "四十"),
        (99, "ninety-nine", "九十九"),
        (100, "one hundred", "一百"),
        (105, "one hundred and five", "一百零五"),
        (110, "one hundred and ten", "一百一十"),
        (365, "three hundred and sixty-five", "三百六十五"),
        (1005, "one thousand and five", "一千零五"),
        (1050, "one thousand and fifty", "一千零五十"),
        (1500, "one thousand five hundred", "一千五百"),
        (80_000, "eighty thousand", "八万"),
        (100_500, "one hundred thousand five hundred", "十万零五百"),
        (
            MOST,
            "nine hundred and ninety-nine thousand nine hundred and ninety-nine",
            "九十九万九千九百九十九",
        ),
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


def test_both_sides_get_the_same_other_number():
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
        ("It cost 1500 dollars.", "花了1500美元。", 100, 999_999),
        ("She has seven hours.", "她有七小时。", 3, 99),
        ("It took six days.", "我用了六时间。", 3, 99),
        ("It cost 500 dollars.", "花了五百美元。", 100, 999_999),
    ],
)
def test_a_number_is_replaced_by_one_of_its_kind(english, chinese, fewest, most):
    drawn = [number for *_, number in replaced(english, chinese)]
    assert fewest <= min(drawn)
    assert max(drawn) <= most
    assert max(drawn) - min(drawn) > (most - fewest) // 2


def test_the_clock_keeps_its_writing():
    assert {english for english, *_ in replaced("It is six.", "现在六点。")} == {
        f"It is {in_english(number)}." for number in range(3, 13)
    }
    for english, chinese, number in replaced("It is 6.", "现在六点。", 40):
        assert (english, chinese) == (f"It is {number}.", f"现在{in_chinese(number)}点。")


def test_long_numbers_have_commas_and_round_ones_can_be_spelled():
    spelled = set()
    for english, chinese, number in replaced("It holds 5000 people.", "可以容纳五千人。", 600):
        if in_english(number) in english:
            assert in_chinese(number) in chinese
            spelled.add(number)
        else:
            figures = f"{number:,}" if number >= 10_000 else str(number)
            assert english == f"It holds {figures} people."
            assert chinese == f"可以容纳{number}人。"
    assert all(number < 1000 or str(number)[1:].strip("0") == "" for number in spelled)
    assert any(number > 1000 for number in spelled)
    assert any(number < 1000 and number % 100 for number in spelled)
    rows = replaced("It holds 5,000 people.", "可以容纳五千人。")
    assert any(f" {number:,} " in english for english, _, number in rows if number < 10_000)
    assert {len(str(number)) for *_, number in rows} == {3, 4, 5, 6}
    round_ones = sum(number % 10 == 0 for *_, number in rows) / len(rows)
    assert 0.5 < round_ones < 0.85
    assert any(not number % 10 and number % 100 and number > 1000 for *_, number in rows)


def test_years_are_digits_and_mostly_of_our_time():
    rows = replaced("It ended in 1945.", "1945年结束了。", 3000)
    assert all(str(number) in english for english, _, number in rows)
    recent = sum(1900 <= number <= 2030 for *_, number in rows) / len(rows)
    assert 0.6 < recent < 0.9


def test_a_sentence_begins_with_a_capital():
    starts = {english.split()[0] for english, *_ in replaced("Two men came.", "两个男人来了。")}
    assert {"Thirty-four", "34"} <= starts
    assert not any(start[0].islower() for start in starts)


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("There are 5 or 5.", "有五个或者五个。"),  # which of them?
        ("He is over sixty.", "他六十多岁了。"),
        ("5 and 5 of them.", "有五个。"),
        ("He has five.", "五月有五个。"),
        ("He has one dog.", "他有一条狗。"),
        ("He has 1 dog.", "他有1条狗。"),
        ("She has three.", "她有四个。"),
        ("No number here.", "这里没有数字。"),
    ],
)
def test_what_cannot_be_told_is_left_alone(english, chinese):
    with pytest.raises(ValueError, match="no pair names the same number"):
        replaced(english, chinese, 1)


def test_each_kind_gets_its_share():
    pairs = [("I see 3 dogs.", "我看见三条狗。")] * 999 + [("It was 1945.", "那是1945年。")]
    years = sum("年" in chinese for _, chinese, _ in numbered_rows(pairs, 600, seed=1))
    assert 210 < years < 300  # three in seven, though they are one pair in a thousand
    pairs = [("It is 6.", "现在六点。")] * 999 + [("It is half past 6.", "现在六点半。")]
    halves = sum("半" in chinese for _, chinese, _ in numbered_rows(pairs, 600, seed=1))
    assert 230 < halves < 370


def test_hours_and_minutes_stay_possible():
    for english, *_ in replaced("It is 2:45.", "现在是2：45。"):
        hour, minute = re.findall(r"\d+", english)
        assert (int(hour) <= 12 and minute == "45") or (hour == "2" and int(minute) < 60)
