"""What a language model repeats when it generates text."""

import dataclasses

import pytest
from hypothesis import given, strategies as st
from tables import chain, wide_model

from models.training import repetition as measured
from models.training.repetition import (
    BEGINNING,
    CONTINUATION,
    N_GRAM,
    continued,
    repeated,
    repetition,
    repetition_of,
)

BOS, EOS, A, B, C, D, E = 1, 2, 3, 4, 5, 6, 7


def test_a_second_copy_of_an_n_gram_is_found_whole() -> None:
    row = [A, B, C, D, E, A, B, C, D, A]
    assert repeated(row, 0) == [False] * 5 + [True] * 4 + [False]
    assert repeated(row, 6) == [False] * 10  # what was given is not the model's


@given(st.lists(st.integers(3, 5), max_size=24), st.integers(0, 12))
def test_a_token_is_repeated_when_an_n_gram_with_it_stood_before(
    row: list[int], start: int
) -> None:
    copies = [
        j
        for j in range(start, len(row) - N_GRAM + 1)
        if any(row[i : i + N_GRAM] == row[j : j + N_GRAM] for i in range(j))
    ]
    assert repeated(row, start) == [
        any(j <= i < j + N_GRAM for j in copies) for i in range(len(row))
    ]


def test_the_share_of_repeated_n_grams() -> None:
    assert repetition([[A, B, C, D, E]]) == 0
    assert repetition([[A] * 7, [A, B, C, D]]) == pytest.approx(3 / 5)
    assert repetition([[A]]) == 0  # no n-gram at all


def test_each_beginning_is_continued_as_it_would_be_alone() -> None:
    model = wide_model("decoder-only")
    beginnings = [[BOS, 5], [BOS, 7, 9, 4], [BOS, 3, 11]]
    rows = continued(model, beginnings, 8)
    assert rows == [row for one in beginnings for row in continued(model, [one], 8)]
    for row, given_ in zip(rows, beginnings, strict=True):
        assert row[: len(given_)] == given_
        assert EOS not in row[:-1]
        assert row[-1] == EOS or len(row) == len(given_) + 8


def test_the_mode_of_the_model_stays() -> None:
    model = chain(_3={3: 1.0})
    model.train()
    assert continued(model, [[BOS, A]], 3) == [[BOS, A, A, A, A]]
    assert model.training


def test_a_looping_model_is_measured_beside_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A B A B ... where a beginning ends in A; after anything else C, D and E before it ends."""
    others = {f"_{token}": {C: 1.0} for token in range(8, 60)}
    model = chain(60, _3={B: 1.0}, _4={A: 1.0}, _5={D: 1.0}, _6={E: 1.0}, **others)
    model.config = dataclasses.replace(model.config, n_ctx=256)
    loop = [*[20, 21, 22, 23] * (BEGINNING // 4 - 1), 20, 21, 22, A, *range(30, 50)]
    ends = [*loop[: BEGINNING - 1], 24, 20, 21, 22, 20, 21, 22, 20]
    assert len(ends) == BEGINNING + 7
    monkeypatch.setattr(measured, "ROWS_AT_ONCE", 1)
    share, real = repetition_of(model, [loop, ends, ends[:5]]) or (0.0, 0.0)
    # Of CONTINUATION - 3 n-grams B A B A ... two are different; C D E is none at all.
    n_grams = CONTINUATION - N_GRAM + 1
    assert share == pytest.approx((n_grams - 2) / n_grams)
    # The texts, after their beginnings: 17 different ones, and four with one repeated.
    assert real == pytest.approx(1 / 21)
    monkeypatch.setattr(measured, "ROWS_AT_ONCE", 2)
    assert repetition_of(model, [ends, loop]) == (share, real)
    assert repetition_of(model, [loop[: BEGINNING + 2]]) is None
    model.config = dataclasses.replace(model.config, n_ctx=BEGINNING)
    assert repetition_of(model, [loop]) is None
