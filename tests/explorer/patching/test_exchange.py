"""A second sentence out of the first: which words are exchanged, and which exchange is offered."""

import pytest

from explorer.analysis.patching.exchange import exchanges, offered
from explorer.analysis.patching.pair import pair
from explorer.library import LoadedModel, open_model
from explorer.runs.trace import trace
from explorer.text import exchanges as groups

GROUPS = {"en": (("she", "he"), ("cat", "dog", "bird")), "zh": (("她", "他"),)}


def test_groups_come_first_capitals_stay_and_words_are_whole() -> None:
    found = list(exchanges("She sheared the cat.", GROUPS))
    assert found[:3] == ["He sheared the cat.", "She sheared the dog.", "She sheared the bird."]
    assert len(found) == len(set(found))
    assert next(exchanges("她爱猫。", GROUPS)) == "他爱猫。"
    assert next(exchanges("I think I am.", {"en": (("I", "we"),)})) == "We think I am."


def test_letters_are_followed_by_their_next_and_other_words_stand_in_for_each_other() -> None:
    assert list(exchanges("c a z", {}))[:3] == ["c a a", "c b z", "d a z"]
    assert "dogs like dogs" in list(exchanges("we like dogs", {}))
    assert list(exchanges("!", {})) == []


def test_what_is_offered_is_cut_alike_and_answered_otherwise(writer: LoadedModel) -> None:
    first = trace(writer, "The cat sat on the mat.")
    second = offered(writer, first, groups())
    assert second is not None
    found = pair(writer, first, second)
    assert found.same_length
    assert found.question.differs
    assert offered(writer, trace(writer, "!"), groups()) is None


@pytest.mark.parametrize("word", ["Brown", "今天"])
def test_a_drawn_word_is_paired_with_one_that_differs_in_one_letter(word: str) -> None:
    loaded = open_model("reader")
    first = f"{word} @serif"
    second = offered(loaded, trace(loaded, first), {})
    assert second is not None
    assert second.endswith(" @serif")
    assert sum(a != b for a, b in zip(first, second, strict=True)) == 1
    assert trace(loaded, second).output != word
