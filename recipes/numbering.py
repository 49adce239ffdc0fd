"""Rows with substituted numbers, so that a translator copies numbers instead of guessing them.

Every digit is a token of its own, but a small corpus contains few numbers, each of them often: a
model memorises "20" with its sentences instead of learning to copy the number. So pairs with the
same number on both sides are repeated with random other numbers (data augmentation by substitution;
Fadaee et al. 2017, arXiv 1705.00440, do so with rare words).
"""

import random
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from models.strategies import Beam, Strategy
from models.tokenizer import Tokenizer
from models.training.data import Pair
from models.training.evaluate import translate
from models.transformer import Model

MOST = 999_999  # the largest supported number

_SMALL = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_DIGITS = "零一二三四五六七八九"
_UNITS = ((10_000, "万"), (1_000, "千"), (100, "百"), (10, "十"))

_WORD = "|".join([*_SMALL, *_TENS, "a(?= hundred| thousand)", "hundred", "thousand"])
_NUMBER = re.compile(
    r"(?<![\d.,A-Za-z])\d+(?:,\d{3})*(?![,.]?\d|[A-Za-z十百千万亿])"
    rf"|\b(?:{_WORD})(?:(?:-| and | )(?:{_WORD}))*\b"
    rf"|[{_DIGITS}〇两十百千万亿]+",
    re.IGNORECASE,
)


def in_english(number: int) -> str:
    """A number from 0 to `MOST` in English words: "two hundred and five"."""
    if number < 20:
        return _SMALL[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _TENS[tens - 2] + (f"-{_SMALL[ones]}" if ones else "")
    unit, name = (1000, "thousand") if number >= 1000 else (100, "hundred")
    many, rest = divmod(number, unit)
    link = " and " if rest < 100 else " "
    return f"{in_english(many)} {name}" + (link + in_english(rest) if rest else "")


def in_chinese(number: int) -> str:
    """A number from 0 to `MOST` in Chinese numerals: 二百零五."""
    if number < 10:
        return _DIGITS[number]
    unit, name = next(each for each in _UNITS if number >= each[0])
    many, rest = divmod(number, unit)
    said = name if number < 20 else in_chinese(many) + name
    if not rest:
        return said
    if rest < unit // 10:
        said += _DIGITS[0]
    elif 10 <= rest < 20:
        said += _DIGITS[1]  # 一百一十五, though 十五
    return said + in_chinese(rest)


@cache
def _values() -> dict[str, int]:
    """The value of each number in words; without 1, since "one" and 一 are rarely numbers."""
    numbers = [*range(2, 10_000), *range(10_000, MOST, 1000)]
    english = {in_english(number): number for number in numbers}
    chinese = {in_chinese(number): number for number in numbers}
    return english | chinese


_CHINESE = re.compile(r"[\u4e00-\u9fff]")


class _Found(NamedTuple):
    value: int
    start: int
    end: int


def _found(text: str) -> list[_Found]:
    """Every number in an English or Chinese text, with its span."""
    found = []
    for match in _NUMBER.finditer(text):
        written = match[0].lower().replace("两", "二").replace(",", "")
        if written.startswith("a "):
            written = "one" + written[1:]
        value = int(written) if written.isdecimal() else _values().get(written)
        if value is not None:
            found.append(_Found(value, *match.span()))
    return found


def numbers(text: str) -> list[int]:
    """The numbers in a text, in order; 1 only if it is written as a digit."""
    return [each.value for each in _found(text)]


class _Slot(NamedTuple):
    """A number that occurs exactly once on each side of a pair."""

    english: str
    chinese: str
    here: _Found
    there: _Found


def _kind(slot: _Slot) -> str | None:
    """The kind of number that may replace it; None if vague, as in 六十多岁, "over sixty"."""
    value, after = slot.here.value, slot.chinese[slot.there.end :]
    if value < 2 or after[:1] in ("多", "几", "来"):
        return None
    if slot.english[: slot.here.start].endswith(":"):
        return "minute"
    if re.match("[:：点]|时(?![间候代])", after):
        return "half hour" if after.startswith("点半") else "hour"
    if after[:1] in ("日", "号"):
        return "day"
    if after.startswith("年") and 1000 <= value < 2100:
        return "year"
    return "few" if value < 100 else "many"


def _slots(english: str, chinese: str) -> list[_Slot]:
    here, there = _found(english), _found(chinese)
    values = [each.value for each in here], [each.value for each in there]
    return [
        _Slot(english, chinese, each, there[values[1].index(each.value)])
        for each in here
        if values[0].count(each.value) == values[1].count(each.value) == 1
    ]


# Sampling weights of the kinds, by their difficulty for a model, not their frequency.
_WEIGHTS = {
    "few": 4, "many": 5, "year": 3, "hour": 1, "half hour": 1, "minute": 1, "day": 1
}  # fmt: skip


def _drawn(kind: str, draw: random.Random) -> int:
    """A random number of at least 3, so that plurals stay plural and 二 never has to become 两."""
    if kind in ("hour", "half hour"):
        return draw.randint(3, 12)
    if kind == "minute":
        return draw.randint(10, 59)
    if kind == "day":
        return draw.randint(3, 28)
    if kind == "year":
        return draw.randint(1000, 2099) if draw.random() < 0.3 else draw.randint(1900, 2030)
    if kind == "few":
        return draw.randint(3, 20) if draw.random() < 0.3 else draw.randint(10, 99)
    length = draw.choice((3, 3, 3, 4, 4, 5, 6))
    zeros = draw.choice((0, length - 2, length - 1))
    return draw.randrange(10 ** (length - 1 - zeros), 10 ** (length - zeros)) * 10**zeros


def _written(number: int, kind: str, slot: _Slot, draw: random.Random) -> Pair:
    """A number in English and Chinese; times in the pair's notation, others alike on both sides."""
    english = slot.english[slot.here.start : slot.here.end]
    chinese = slot.chinese[slot.there.start : slot.there.end]
    digits = [english[0].isdecimal(), chinese[0].isdecimal()]
    if kind not in ("hour", "half hour", "minute"):
        spoken = number < 1000 or set(str(number)[1:]) == {"0"}
        often = 0.5 if number < 100 else 0.3
        digits = [kind == "year" or not spoken or draw.random() > often] * 2
    words = in_english(number)
    if slot.here.start == 0:
        words = words[0].upper() + words[1:]
    figures = f"{number:,}" if number >= 10_000 or "," in english else str(number)
    return figures if digits[0] else words, str(number) if digits[1] else in_chinese(number)


def numbered_rows(pairs: Sequence[Pair], n: int, seed: int) -> list[tuple[str, str, int]]:
    """`n` rows (source, target, number) made from English-Chinese `pairs`, sampled with `seed`.

    Each is a pair in which one number was replaced on both sides by the `number` of its row. Either
    language may be the source. Raises ValueError if no pair has a number on both sides.
    """
    by_kind: dict[str, list[tuple[_Slot, bool]]] = defaultdict(list)
    for source, target in pairs:
        turned = _CHINESE.search(source) is not None
        for slot in _slots(target, source) if turned else _slots(source, target):
            if kind := _kind(slot):
                by_kind[kind].append((slot, turned))
    if not by_kind:
        raise ValueError("no pair names the same number on both sides, in English and in Chinese")
    draw = random.Random(seed)
    kinds = [kind for kind in _WEIGHTS if kind in by_kind]
    rows = []
    for kind in draw.choices(kinds, [_WEIGHTS[kind] for kind in kinds], k=n):
        slot, turned = draw.choice(by_kind[kind])
        number = _drawn(kind, draw)
        said, told = _written(number, kind, slot, draw)
        english = slot.english[: slot.here.start] + said + slot.english[slot.here.end :]
        chinese = slot.chinese[: slot.there.start] + told + slot.chinese[slot.there.end :]
        rows.append((chinese, english, number) if turned else (english, chinese, number))
    return rows


def numbers_kept(
    model: Model,
    tokenizer: Tokenizer,
    rows: Sequence[tuple[str, str, int]],
    strategy: Strategy | None = None,
) -> dict[str, float]:
    """Percentage of rows (source, target, number) whose translation contains the number.

    The rows are those of `numbered_rows`; digits and words both count.
    """
    written = translate(model, tokenizer, [row[0] for row in rows], strategy or Beam(width=4))
    kept = sum(row[2] in numbers(text) for row, text in zip(rows, written, strict=True))
    return {"numbers": round(100 * kept / len(rows), 1), "sentences": len(rows)}
