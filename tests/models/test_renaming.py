"""Stories told of somebody else."""

import re

import pytest

from models.training.renaming import FEWEST, names_of, renamed_texts

ONE = "Then {0} saw a cat. {1} said that {0} liked it."
TWO = "Then Tom met Anna. She saw that Tom was sad, so Anna gave Tom a cake."
NAMES = {"Tom": "He", "Ben": "He", "Sam": "He", "Anna": "She", "Lucy": "She", "Mia": "She"}
TEXTS = [
    *(ONE.format(name, pronoun) for name, pronoun in NAMES.items() for _ in range(FEWEST)),
    *("So Rex ran on Monday. " + text for text in [TWO] * (FEWEST - 1)),  # Rex: too seldom
    *["He and his dog called a man Mr in the wood."] * FEWEST,
    *["Then she saw the Queen, and the queen saw her."] * FEWEST,
    *["So they came to Paris. He and she liked it."] * FEWEST,  # neither "he" nor "she"
]


def test_names_are_found_with_their_pronouns() -> None:
    assert names_of(TEXTS) == [["Ben", "Sam", "Tom"], ["Anna", "Lucy", "Mia"]]


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
    story = "Then Tom met Ben, and Ben met Sam, and Sam saw Tom."
    for text in renamed_texts([*TEXTS, story], 2000, seed=1):
        if " met " in text and "Sam" in text and "Tom" in text and "Ben" in text:
            a, b, c, d, e, f = re.findall(r"Tom|Ben|Sam", text)
            assert (a, b, c) == (f, c, e) or (a, b, d) == (f, c, e)
            assert len({a, b, d}) == 3


def test_texts_come_equally_often_and_the_nameless_as_they_are() -> None:
    plain = "So the sun shone."
    rows = renamed_texts([plain, *TEXTS], 2 * len(TEXTS) + 2, seed=1)
    assert rows.count(plain) == 2
    assert len(rows) == 2 * len(TEXTS) + 2


def test_the_seed_decides() -> None:
    rows = renamed_texts(TEXTS, 90, seed=1)
    assert rows == renamed_texts(TEXTS, 90, seed=1)
    assert rows != renamed_texts(TEXTS, 90, seed=2)


def test_texts_without_names_cannot_be_renamed() -> None:
    with pytest.raises(ValueError, match="no name stands in 12 of these 2 texts"):
        renamed_texts(["Then Tom ran.", "So the sun shone."], 3, seed=1)
