"""Stories told of somebody else."""

import re

import pytest

from recipes.renaming import FEWEST, names_of, renamed_texts

ONE = "Then {0} saw a cat. {1} said that {0} liked it."
TWO = "Then Tom met Anna. She saw that Tom was sad, so Anna gave Tom a cake."
NAMES = {"Tom": "He", "Ben": "He", "Sam": "He", "Anna": "She", "Lucy": "She", "Mia": "She"}
TEXTS = [
    *(ONE.format(name, pronoun) for name, pronoun in NAMES.items() for _ in range(FEWEST)),
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


def test_names_are_found_with_their_pronouns() -> None:
    assert names_of(TEXTS) == [["Ben", "Joe", "Sam", "Tom"], ["Anna", "Kate", "Lucy", "Mia"]]


def test_every_name_becomes_another_of_its_kind_everywhere() -> None:
    he, she = names_of(TEXTS)
    seen = set()
    for text in renamed_texts([*TEXTS, TWO], 3000, seed=1):
        if not text.startswith("Then") or "met" not in text:
            continue
        first, second = re.findall(r"[A-Z][a-z]+", text)[1:3]
        assert first in he
        assert second in she
        assert text == TWO.replace("Tom", first).replace("Anna", second)
        seen.add((first, second))
    assert len(seen) > 6


def test_two_people_stay_two() -> None:
    story = "Then Tom met Ben, and Ben saw Tom."
    rows = [text for text in renamed_texts([*TEXTS, *[story] * 99], 400, 1) if " met " in text]
    assert len(rows) > 99
    for text in rows:
        one, two, two_again, one_again = re.findall(r"[A-Z][a-z]+", text)[1:]
        assert (one, two) == (one_again, two_again)
        assert one != two


def test_texts_come_equally_often_and_the_nameless_as_they_are() -> None:
    plain = "So the sun shone."
    rows = renamed_texts([plain, *TEXTS], 2 * len(TEXTS) + 2, seed=1)
    assert rows.count(plain) == 2
    assert len(rows) == 2 * len(TEXTS) + 2


def test_texts_come_in_another_order_each_time() -> None:
    plain = [f"the sun shone {n} times" for n in range(20)]
    rows = [row for row in renamed_texts([*plain, *TEXTS], 2 * len(TEXTS) + 40, 1) if row in plain]
    assert sorted(rows[:20]) == sorted(rows[20:]) == sorted(plain)
    assert rows[:20] != plain
    assert rows[:20] != rows[20:]


def test_the_seed_decides() -> None:
    rows = renamed_texts(TEXTS, 90, seed=1)
    assert rows == renamed_texts(TEXTS, 90, seed=1)
    assert rows != renamed_texts(TEXTS, 90, seed=2)


def test_texts_without_names_cannot_be_renamed() -> None:
    with pytest.raises(ValueError, match="no name occurs in at least 12 of these 2 texts"):
        renamed_texts(["Then Tom ran.", "So the sun shone."], 3, seed=1)
