"""Attention between whole words, on numbers worked by hand."""

import numpy as np
from foreign import byte_level

from explorer.analysis.heads.aligned import align, gathered
from explorer.analysis.heads.words import Words, by_word, flow_by_word, mask_by_word, words_of
from explorer.labels import SpecialToken, str_tokens
from models.foreign.tokens import ForeignTokenizer

ROW = words_of(["un", "·able", "."])


START, END = SpecialToken("<s>"), SpecialToken("</s>")


def test_pieces_inside_a_word_belong_to_it() -> None:
    row = [SpecialToken("<s>"), "un", "·b", "·el", "re", "-", "read", "·s", SpecialToken("</s>")]
    words = words_of(row)
    assert words.labels == ("<s>", "unbel", "re", "-", "reads", "</s>")
    assert words.starts == (0, 1, 4, 5, 6, 8)
    assert [words.of(token) for token in range(9)] == [0, 1, 1, 1, 2, 3, 4, 4, 5]


def test_special_tokens_join_nothing() -> None:
    assert words_of([SpecialToken("<s>"), "·b"]).labels == ("<s>", "·b")
    assert words_of(["a", SpecialToken("·")]).starts == (0, 1)
    assert words_of(["a", "·"]).labels == ("a", "·")  # a point that was typed


def test_a_character_in_several_tokens_and_the_blank_before_a_word_are_no_words() -> None:
    tokenizer = ForeignTokenizer(byte_level())
    row = str_tokens(tokenizer, tokenizer.encode("We 我爱 cafés, x₂ при"))
    assert row[3:9] == ["我₁", "我₂", "我₃", "爱₁", "爱₂", "爱₃"]
    assert words_of(row).labels == ("We", "我", "爱", "cafés", ",", "x", "₂", "при")
    assert words_of(row).starts[:4] == (0, 2, 6, 9)
    assert words_of(["a", "␣", SpecialToken("</s>")]).labels == ("a", "␣", "</s>")


def test_keys_are_summed_and_queries_averaged() -> None:
    pattern = np.array([[[1.0, 0.0, 0.0], [0.25, 0.5, 0.25], [0.125, 0.125, 0.75]]], np.float32)
    # Keys: [1, 0], [0.75, 0.25], [0.25, 0.75]; the first two queries are one word.
    expected = [[[0.875, 0.125], [0.25, 0.75]]]
    np.testing.assert_array_equal(by_word(pattern, ROW, ROW), expected)
    assert by_word(pattern, ROW, ROW).dtype == np.float32


def test_a_word_may_be_attended_to_where_one_of_its_tokens_may() -> None:
    causal = np.tril(np.ones((3, 3), bool))
    np.testing.assert_array_equal(mask_by_word(causal, ROW, ROW), [[True, False], [True, True]])


def test_tokens_that_are_words_stay_as_they_are() -> None:
    alone = Words(("a", "b"), (0, 1))
    pattern = np.array([[0.5, 0.5], [0.25, 0.75]])
    np.testing.assert_array_equal(by_word(pattern, alone, alone), pattern)


def test_flows_into_the_tokens_of_a_word_are_not_added() -> None:
    flow = np.array([[0.5, 0.75, 0.25], [1.0, 0.25, 0.25], [0.5, 0.25, 1.0]])
    np.testing.assert_array_equal(flow_by_word(flow, ROW, ROW), [[0.875, 0.25], [0.5, 1.0]])


def test_equal_rows_are_compared_token_by_token() -> None:
    row = [START, "un", "·able", "to", END]
    pieces = align(row, list(row))
    assert pieces.whole
    assert pieces.labels == tuple(row)
    assert pieces.one == pieces.other == ((0,), (1,), (2,), (3,), (4,))
    assert getattr(pieces.labels[0], "special", False)


def test_tokens_between_common_boundaries_are_one_piece() -> None:
    pieces = align(["un", "·believ", "·able", "!"], ["unbel", "·ievable", "!"])
    assert pieces.labels == ("unbelievable", "!")
    assert pieces.one == ((0, 1, 2), (3,))
    assert pieces.other == ((0, 1), (2,))
    assert not pieces.whole
    assert [pieces.across(token) for token in range(4)] == [0, 0, 0, 2]
    assert [pieces.across(token, back=True) for token in range(3)] == [0, 0, 3]


def test_case_and_accents_are_ignored_and_marks_of_one_model_left_out() -> None:
    pieces = align(["Café", "there"], [SpecialToken("[CLS]"), "cafe", "there", END])
    assert pieces.labels == ("Café", "there")
    assert pieces.other == ((1,), (2,))
    assert pieces.across(0) == 1
    assert pieces.across(3, back=True) is None
    assert not pieces.whole


def test_a_mark_is_not_its_name_typed_as_text() -> None:
    assert align([START, "a"], ["<s>", "a"]).labels == ("a",)


def test_a_character_of_several_tokens_is_compared_as_one() -> None:
    pieces = align(["我", "爱₁", "爱₂", "爱₃", "你"], ["我", "爱你"])
    assert pieces.labels == ("我", "爱你")
    assert pieces.one == ((0,), (1, 2, 3, 4))


def test_what_only_one_of_the_rows_has_is_in_no_piece() -> None:
    assert align(["the", "cat"], ["the", "big", "cat"]).other == ((0,), (2,))
    assert align(["我"], ["cat"]).labels == ()
    assert align(["a", "␣", "b"], ["a", "b"]).one == ((0,), (2,))


def test_keys_are_summed_queries_averaged_and_the_rest_is_a_column() -> None:
    pattern = np.array([[1.0, 0.0, 0.0], [0.25, 0.5, 0.25], [0.125, 0.125, 0.75]])
    found = gathered(pattern, [(0,), (1, 2)], [(1, 2)])
    # Row 0: nothing on the piece; rows 1 and 2: 0.75 and 0.875, on average 0.8125.
    np.testing.assert_allclose(found, [[0.0, 1.0], [0.8125, 0.1875]])
