"""The rows that a recipe makes out of those of its file: joined, shortened, and told of others."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from models.training.corpus import Row
from models.training.recipe import read_recipe
from recipes import CURRICULUM
from recipes.joining import MOST, joined_pairs
from recipes.numbering import numbered_rows
from recipes.renaming import FEWEST, names_of, renamed_texts
from recipes.shortening import short_rows

# Joined

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


def test_both_sides_hold_the_same_pairs_in_the_same_order():
    rows = joined_pairs(JOINED, 60, seed=1)
    assert len(rows) == 60
    sizes = set()
    for source, target in rows:
        sources = parts(source, [pair[0] for pair in JOINED])
        assert parts(target, [pair[1] for pair in JOINED]) == [dict(JOINED)[s] for s in sources]
        sizes.add(len(sources))
    assert sizes == {2, 3, 4}


def test_they_stand_as_sentences_or_as_clauses():
    # Inside a text "Tom" has its capital, "we" none; that "We" begins more of them says nothing.
    known = [*JOINED, ("There we are with Tom.", "我们和汤姆在那儿。")]
    known += [(f"We {verb}.", "我们在这儿。") for verb in ("swim", "sing", "read")]
    rows = joined_pairs(known, 6000, seed=1)
    assert ("Tom sleeps. We ate rice with Tom.", "汤姆在睡觉。我们和汤姆吃了米饭。") in rows
    assert ("Tom sleeps, and we ate rice with Tom.", "汤姆在睡觉，我们和汤姆吃了米饭。") in rows
    assert ("We ate rice with Tom, and Tom sleeps.", "我们和汤姆吃了米饭，汤姆在睡觉。") in rows


def test_a_question_ends_where_it_ends():
    rows = joined_pairs(JOINED, 200, seed=1)
    assert any("Are we late? " in source for source, _ in rows)
    assert not any("late, and" in source or "吗，" in target for source, target in rows)


# Short

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


def test_short_rows_come_with_either_mark_and_questions_stay_questions():
    assert set(short_rows(SHORT[:2] * 2, 60, seed=1)) == {
        ("Help!", "救命！"),
        ("Help.", "救命。"),
        ("Who?", "谁？"),
    }


def test_what_stands_before_a_comma_is_a_row_where_two_pairs_agree():
    assert set(short_rows(SHORT, 200, seed=1)) == {
        ("Help!", "救命！"),
        ("Help.", "救命。"),
        ("Who?", "谁？"),
        ("Sit down.", "请坐下来。"),
        ("Sit down!", "请坐下来！"),
        ("No.", "不。"),
        ("No!", "不！"),
    }


def test_what_is_said_more_often_is_drawn_more_often():
    pairs = [*SHORT[:2], *[SHORT[2]] * 6]
    drawn = short_rows(pairs, 400, seed=1)
    assert sum(source in ("No.", "No!") for source, _ in drawn) > 250


# Told of others

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


def test_names_are_found_with_their_pronouns():
    assert names_of(TOLD) == [["Ben", "Joe", "Sam", "Tom"], ["Anna", "Kate", "Lucy", "Mia"]]


def test_every_name_becomes_another_of_its_kind_everywhere():
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


def test_two_people_stay_two():
    story = "Then Tom met Ben, and Ben saw Tom."
    rows = [text for text in renamed_texts([*TOLD, *[story] * 99], 400, 1) if " met " in text]
    assert len(rows) > 99
    for text in rows:
        one, two, two_again, one_again = re.findall(r"[A-Z][a-z]+", text)[1:]
        assert (one, two) == (one_again, two_again)
        assert one != two


def test_texts_come_equally_often_and_the_nameless_as_they_are():
    plain = "So the sun shone."
    rows = renamed_texts([plain, *TOLD], 2 * len(TOLD) + 2, seed=1)
    assert rows.count(plain) == 2
    assert len(rows) == 2 * len(TOLD) + 2


def test_texts_come_in_another_order_each_time():
    plain = [f"the sun shone {n} times" for n in range(20)]
    rows = [row for row in renamed_texts([*plain, *TOLD], 2 * len(TOLD) + 40, 1) if row in plain]
    assert sorted(rows[:20]) == sorted(rows[20:]) == sorted(plain)
    assert rows[:20] != plain
    assert rows[:20] != rows[20:]


# As a recipe asks

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


def test_texts_are_told_again_with_other_names():
    texts = [f"So {name} came. He sang." for name in ("Tom", "Ben", "Sam") for _ in range(12)]
    made = more_rows([*texts, *ROWS], {"renamed": 5}, seed=3)
    assert made == renamed_texts(texts, 5, seed=3)
    assert len(made) == 5


# All of them

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
        (
            lambda: renamed_texts(["Then Tom ran.", "So the sun shone."], 3, seed=1),
            "no name occurs in at least 12 of these 2 texts",
        ),
        (lambda: read_recipe("copy", ["data.joined=3"]), "joined is 3"),
        (lambda: read_recipe("copy", ["data.numbered=3"]), "numbered is 3"),
        (lambda: read_recipe("en-zh", ["data.short=-1"]), "short is -1"),
        (lambda: read_recipe("en-zh", ["data.renamed=-1"]), "renamed is -1"),
    ],
)
def test_rows_that_cannot_be_made_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
