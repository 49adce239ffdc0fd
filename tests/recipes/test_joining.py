"""Longer rows out of short pairs."""

import pytest

from models.training.recipe import read_recipe
from recipes.joining import MOST, joined_pairs

PAIRS = [
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


def test_both_sides_hold_the_same_pairs_in_the_same_order() -> None:
    rows = joined_pairs(PAIRS, 60, seed=1)
    assert len(rows) == 60
    sizes = set()
    for source, target in rows:
        sources = parts(source, [pair[0] for pair in PAIRS])
        assert parts(target, [pair[1] for pair in PAIRS]) == [dict(PAIRS)[s] for s in sources]
        sizes.add(len(sources))
    assert sizes == {2, 3, 4}


def test_they_stand_as_sentences_or_as_clauses() -> None:
    # Inside a text "Tom" has its capital, "we" none; that "We" begins more of them says nothing.
    known = [*PAIRS, ("There we are with Tom.", "我们和汤姆在那儿。")]
    known += [(f"We {verb}.", "我们在这儿。") for verb in ("swim", "sing", "read")]
    rows = joined_pairs(known, 6000, seed=1)
    assert ("Tom sleeps. We ate rice with Tom.", "汤姆在睡觉。我们和汤姆吃了米饭。") in rows
    assert ("Tom sleeps, and we ate rice with Tom.", "汤姆在睡觉，我们和汤姆吃了米饭。") in rows
    assert ("We ate rice with Tom, and Tom sleeps.", "我们和汤姆吃了米饭，汤姆在睡觉。") in rows


def test_a_question_ends_where_it_ends() -> None:
    rows = joined_pairs(PAIRS, 200, seed=1)
    assert any("Are we late? " in source for source, _ in rows)
    assert not any("late, and" in source or "吗，" in target for source, target in rows)


def test_the_seed_decides() -> None:
    assert joined_pairs(PAIRS, 9, seed=1) == joined_pairs(PAIRS, 9, seed=1)
    assert joined_pairs(PAIRS, 9, seed=1) != joined_pairs(PAIRS, 9, seed=2)


def test_directions_are_joined_alike() -> None:
    turned = joined_pairs([(target, source) for source, target in PAIRS], 40, seed=3)
    assert [(source, target) for target, source in turned] == joined_pairs(PAIRS, 40, seed=3)


def test_too_few_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="3 pairs are too few"):
        joined_pairs(PAIRS[: MOST - 1], 1, seed=1)


def test_rows_of_a_task_are_not_joined() -> None:
    with pytest.raises(ValueError, match="joined is 3"):
        read_recipe("copy", ["data.joined=3"])
