"""From a reader's marks to pairs of which one is preferred."""

import dataclasses
import gzip
import json

import pytest

from models.tokenizer import Tokenizer
from models.training.vocabulary import train_tokenizer
from recipes.judging import (
    LEAD,
    Judged,
    Preference,
    judged_names,
    preferences_of,
    read_judged,
)

TEXTS = ["one red cat sat there", "two dogs ran home and slept"]


@pytest.fixture(scope="module")
def letters() -> Tokenizer:
    """Pieces of one letter: a text of n letters is n tokens or some more."""
    return train_tokenizer(TEXTS * 20, 26)


def test_the_text_that_keeps_sense_longer_is_the_better_one(letters):
    begin = "two dogs"
    given = len(letters.encode(begin))
    assert letters.encode(TEXTS[1])[:given] == letters.encode(begin)

    def ids(text: str) -> tuple[int, ...]:
        whole = letters.encode(begin + text)
        assert whole[:given] == letters.encode(begin)
        return tuple(whole[given:])

    long, short, shorter = " ran home and there sat one cat", " ran there and", " ran"
    assert len(ids(long)) >= len(ids(short)) + LEAD
    assert len(ids(shorter)) < len(ids(short)) < len(ids(shorter)) + LEAD
    judged = [
        Judged(1, given, short, " dogs"),
        Judged(1, given, long, " red"),
        Judged(1, given, long[:-1], ""),  # keeps sense to its end: the worse one of nothing
        Judged(1, given, " sat", ""),  # short, but nothing breaks it: the worse one of nothing
        Judged(1, given, shorter, " ran"),  # not clearly longer or shorter than the first
        Judged(0, len(letters.encode("one red")), "", " dogs"),  # another story
    ]
    found = preferences_of(judged, TEXTS, letters)
    start = tuple(letters.encode(begin))
    red = tuple(letters.encode("one red"))
    assert (
        set(found)
        == {
            Preference(start, ids(better), ids(worse))
            for better in (long, long[:-1])
            for worse in (short + " dogs", shorter + " ran")
        }
        | {  # and the stories themselves
            Preference(start, ids(" ran home and slept"), ids(shorter + " ran")),
            Preference(
                red,
                tuple(letters.encode(TEXTS[0])[len(red) :]),
                tuple(letters.encode("one red dogs")[len(red) :]),
            ),
        }
    )
    assert len(found) == 6


def test_a_text_that_goes_on_in_other_pieces_is_left_out():
    whole = train_tokenizer(["cat cat cat cats"], 19)  # "cat" is one piece, and "ca" another
    assert len(whole.encode("cat")) < len(whole.encode("ca")) + len(whole.encode("t"))
    judged = [
        Judged(0, len(whole.encode("ca")), "t" + " cat" * LEAD, " a"),
        Judged(0, len(whole.encode("ca")), " cat" * (2 * LEAD), " a"),
        Judged(0, len(whole.encode("ca")), "", " a"),
    ]
    found = preferences_of(judged, ["ca"], whole)
    assert [whole.decode(pair.better) for pair in found] == ["cat " * (2 * LEAD - 1) + "cat"]


def test_the_story_itself_goes_on_to_the_end_of_a_sentence():
    text = "a cat. a dog! a fox and a cat? a"
    one = train_tokenizer([text] * 20, 30)
    given, ids = len(one.encode("a cat.")), one.encode(text)

    def better(worse: str) -> str:
        (pair,) = preferences_of([Judged(0, given, "", worse)], [text], one)
        assert [*pair.given] == ids[:given]
        return one.decode(pair.better)

    assert better(" a") == "a dog!"
    assert better(" a dog! a dog!") == "a dog! a fox and a cat?"
    assert better(" a dog!" * 9) == "a dog! a fox and a cat? a"  # it has no more
    whole = Judged(0, len(ids), "", " a dog!")
    assert preferences_of([whole], [text], one) == []  # and here nothing at all


@pytest.mark.parametrize("one", [Judged(2, 3, " so", ""), Judged(0, 99, " so", "")])
def test_judgements_of_another_text_are_refused(letters, one):
    with pytest.raises(ValueError, match="it must be the text that was judged"):
        preferences_of([one], TEXTS, letters)


def test_judgements_are_read_by_name_or_from_a_file(tmp_path):
    file = tmp_path / "mine.jsonl"
    one = Judged(3, 8, " It was a dög.", ' "No."')
    file.write_text(json.dumps(dataclasses.asdict(one)) + "\n", encoding="utf-8")
    assert read_judged(str(file)) == [one]
    compressed = tmp_path / "mine.jsonl.gz"
    compressed.write_bytes(gzip.compress(file.read_bytes()))
    assert read_judged(str(compressed)) == [one]
    assert "stories" in judged_names()
    for name in judged_names():
        judged = read_judged(name)
        assert all(one.kept or one.broken for one in judged)
        assert all(one.given >= 5 for one in judged)
    with pytest.raises(ValueError, match=r"no judgements 'none': .* or one of .*stories"):
        read_judged("none")
