"""Two tokenisations of one text, on pieces worked by hand."""

import numpy as np

from explorer.analysis.heads.aligned import align, gathered
from explorer.labels import SpecialToken

START, END = SpecialToken("<s>"), SpecialToken("</s>")


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
