"""Tokens grouped into words, by every model over the same bytes."""

from dataclasses import replace

import numpy as np

from explorer.analysis.alignment.words import WordRow, shares, token_spans, words_in
from explorer.library import open_model
from models.marks import Marks
from models.tokenizer import Tokenizer


def words(model: str, text: str) -> tuple[str, ...]:
    loaded = open_model(model)
    return words_in(loaded, loaded.model.with_marks("tgt", loaded.tokenizer.encode(text))).labels


def test_letters_between_blanks_are_a_word_and_a_chinese_token_is_one() -> None:
    assert words("en-zh", "She reads a book.") == ("She", "reads", "a", "book", ".")
    assert words("en-zh", "I don't know, Tom's dog is 12.") == (
        *("I", "don't", "know", ",", "Tom's", "dog", "is", "12", "."),
    )
    assert "".join(words("en-zh", "她每天早上看书。")) == "她每天早上看书。"
    assert len(words("en-zh", "她每天早上看书。")) > 1


class Bytes(Tokenizer):
    """Each token is one byte."""

    def __init__(self) -> None:
        self.marks = Marks()

    def is_special(self, token: int) -> bool:
        return False

    def bytes_of(self, token: int) -> bytes:
        return bytes([token])


def test_tokens_that_make_one_character_together_are_one_word() -> None:
    loaded = replace(open_model("copy"), tokenizer=Bytes())
    assert words_in(loaded, list("Tom's 龘书 5点 50".encode())).labels == (
        *("Tom's", "龘", "书", "5", "点", "50"),
    )


def test_an_unknown_character_is_a_word_too() -> None:
    assert words("en-zh", "a 龘.") == ("a", "<unk>", ".")


def test_a_token_belongs_to_the_words_that_its_bytes_lie_in() -> None:
    row = WordRow(("ab", "cd"), ((0, 2), (2, 4)), b"abcd")
    found = shares(row, ((0, 0), (0, 3), (3, 4)), b"abcd")
    np.testing.assert_allclose(found, [[0, 2 / 3, 0], [0, 1 / 3, 1]])


def test_a_tokenizer_that_changed_the_text_is_matched_by_what_stayed() -> None:
    row = WordRow(("AB", "CD"), ((0, 2), (2, 4)), b"ABCD")
    found = shares(row, ((0, 2), (2, 3), (3, 5)), b"abxcd")
    np.testing.assert_allclose(found, [[1, 0, 0], [0, 0, 1]])


def test_two_models_with_other_vocabularies_share_words() -> None:
    one, other = open_model("en-zh"), open_model("twin-right")
    row = words_in(one, one.tokenizer.encode("She likes dogs."))
    spans, letters = token_spans(other, other.tokenizer.encode("She likes dogs."))
    assert len(spans) != len(one.tokenizer.encode("She likes dogs."))
    np.testing.assert_allclose(shares(row, spans, letters).sum(0), 1)
