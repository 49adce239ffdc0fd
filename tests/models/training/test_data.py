"""Training data: shifted rows, padding, and batches that hold every example once."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, strategies as st

from models.config import ModelConfig
from models.marks import Marks
from models.training.data import (
    Example,
    batches,
    collate,
    encode_pairs,
    encode_texts,
    plan_batches,
    read_pairs,
    read_texts,
)
from models.training.vocabulary import train_tokenizer
from models.transformer import build_model

TRANSLATOR, LANGUAGE_MODEL, ENCODER = (
    build_model(ModelConfig(family=family, vocab_size=20, d_model=8, n_heads=2, n_layers=1, d_ff=8))
    for family in ("encoder-decoder", "decoder-only", "encoder-only")
)


def test_rows_are_shifted_by_one_and_padded() -> None:
    batch = collate([Example((5, 6), (7, 8, 9)), Example((5,), (7,))], TRANSLATOR)
    assert batch.rows.src is not None
    assert batch.rows.src_valid is not None
    assert batch.rows.src.tolist() == [[5, 6, 2], [5, 2, 0]]
    assert batch.rows.src_valid.tolist() == [[True, True, True], [True, True, False]]
    assert batch.rows.tgt.tolist() == [[1, 7, 8, 9], [1, 7, 0, 0]]
    assert batch.labels.tolist() == [[7, 8, 9, 2], [7, 2, 0, 0]]
    assert batch.loss_mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert batch.n_labels == 6
    batch.labels[:] = -100  # which leaves the input alone
    assert batch.rows.tgt[0].tolist() == [1, 7, 8, 9]


def test_an_encoder_reads_the_text_whole_and_its_words_are_the_labels() -> None:
    batch = collate([Example((), (7, 8)), Example((), (9,))], ENCODER)
    assert batch.rows.src is None
    assert batch.rows.tgt.tolist() == batch.labels.tolist() == [[1, 7, 8, 2], [1, 9, 2, 0]]
    assert batch.loss_mask.tolist() == [[False, True, True, False], [False, True, False, False]]
    assert batch.n_labels == 3


def test_marks_may_be_absent_or_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LANGUAGE_MODEL, "marks", Marks(start=4, end=4))
    batch = collate([Example((), (7, 8)), Example((), (9,))], LANGUAGE_MODEL)
    assert (batch.rows.src, batch.rows.src_valid) == (None, None)
    assert batch.rows.tgt.tolist() == [[4, 7, 8], [4, 9, 0]]
    assert batch.labels.tolist() == [[7, 8, 4], [9, 4, 0]]
    monkeypatch.setattr(LANGUAGE_MODEL, "marks", Marks(pad=3))
    batch = collate([Example((), (7, 8)), Example((), (9, 5, 6))], LANGUAGE_MODEL)
    assert batch.rows.tgt.tolist() == [[7, 3], [9, 5]]
    assert batch.labels.tolist() == [[8, 3], [5, 6]]
    assert batch.n_labels == 3


lengths = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=60)


def made(pairs: list[tuple[int, int]]) -> list[Example]:
    return [Example((5,) * n, (6,) * m) for n, m in pairs]


@given(lengths, st.integers(8, 100), st.integers(0, 5))
def test_every_example_is_in_one_batch_and_no_batch_is_too_large(
    pairs: list[tuple[int, int]], max_tokens: int, epoch: int
) -> None:
    examples = made(pairs)
    plan = plan_batches(examples, max_tokens, seed=3, epoch=epoch)
    assert sorted(i for indices in plan for i in indices) == list(range(len(examples)))
    for indices in plan:
        width = 1 + max(max(len(examples[i].src), len(examples[i].tgt)) for i in indices)
        assert len(indices) == 1 or width * len(indices) <= max_tokens
    assert plan == plan_batches(examples, max_tokens, seed=3, epoch=epoch)


@given(lengths, st.integers(1, 5))
def test_shares_of_a_batch_add_up_to_it(pairs: list[tuple[int, int]], n_shares: int) -> None:
    examples = made(pairs)
    whole = list(batches(examples, TRANSLATOR, 40, seed=1, epoch=0))
    shares = [
        list(batches(examples, TRANSLATOR, 40, seed=1, epoch=0, share=(i, n_shares)))
        for i in range(n_shares)
    ]
    for number, batch in enumerate(whole):
        parts = [share[number] for share in shares]
        assert sum(int(part.loss_mask.sum()) for part in parts) == batch.n_labels
        assert {part.n_labels for part in parts} == {batch.n_labels}


def test_the_order_follows_from_epoch_and_seed_and_the_first_batches_can_be_skipped() -> None:
    examples = made([(n % 7 + 1, n % 5 + 1) for n in range(60)])
    plans = [plan_batches(examples, 30, seed, epoch) for seed, epoch in ((1, 0), (1, 1), (2, 0))]
    assert plans[0] != plans[1]
    assert plans[0] != plans[2]
    every = list(batches(examples, TRANSLATOR, 30, seed=1, epoch=0))
    rest = list(batches(examples, TRANSLATOR, 30, seed=1, epoch=0, skip=3))
    assert len(every) > 4
    assert all(torch.equal(a.rows.tgt, b.rows.tgt) for a, b in zip(every[3:], rest, strict=True))


def test_pairs_are_read_with_further_columns_and_quotes_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text('He said "hi.\t他说“嗨”。\tsomewhere #1\n\nYes.\t是。\n', encoding="utf-8")
    assert read_pairs(path) == [('He said "hi.', "他说“嗨”。"), ("Yes.", "是。")]


@pytest.mark.parametrize(
    ("row", "message"),
    [("no tab", r"pairs\.tsv, line 2: no TAB"), ("c\t" + "d" * 200_000, r"line 2: field larger")],
)
def test_a_row_that_is_no_pair_is_named(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(f"a\tb\n{row}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_pairs(path)


def test_texts_end_at_their_mark(tmp_path: Path) -> None:
    path = tmp_path / "stories.txt"
    path.write_text("One.\nTwo.\n<|endoftext|>\nThree.\n<|endoftext|>\n", encoding="utf-8")
    assert read_texts(path) == ["One.\nTwo.", "Three."]


def test_what_is_too_long_is_left_out_or_cut() -> None:
    tokenizer = train_tokenizer(["a b c d e f", "g h i j"] * 2, vocab_size=60)
    pairs = [("a b", "g h"), ("a b c d e f", "g"), ("a", "")]
    assert len(encode_pairs(pairs, tokenizer, n_ctx=5)) == 1
    pieces = encode_texts(["a b c d e f"], tokenizer, n_ctx=5)
    assert [len(e.tgt) for e in pieces] == [4, 2]
    assert [i for e in pieces for i in e.tgt] == tokenizer.encode("a b c d e f")
    marked = encode_texts(["a b c d e f"], tokenizer, n_ctx=5, n_marks=2)
    assert [len(e.tgt) for e in marked] == [3, 3]
