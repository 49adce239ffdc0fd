"""Training data: shifted rows, padding, and batches that hold every example once."""

import dataclasses
import json

import pytest
import torch
from hypothesis import given, strategies as st

from models.__main__ import main
from models.checkpoint import load_checkpoint
from models.config import ModelConfig
from models.marks import Marks
from models.rows import Rows, padded
from models.training.commands import rows_of
from models.training.corpus import DataConfig, make_rows, read_rows, solve, task_pairs
from models.training.data import (
    Example,
    Material,
    batches,
    collate,
    encode_pairs,
    encode_texts,
    plan_batches,
    read_pairs,
    read_texts,
)
from models.training.loop import Trainer
from models.training.objectives import (
    MASKED,
    RANDOM,
    Likelihood,
    MaskedWords,
    fill_in,
    with_words_masked,
)
from models.training.recipe import read_recipe
from models.training.settings import TrainingConfig
from models.training.vocabulary import train_tokenizer
from models.transformer import Model, build_model

TRANSLATOR, LANGUAGE_MODEL, ENCODER = (
    build_model(ModelConfig(family=family, vocab_size=20, d_model=8, n_heads=2, n_layers=1, d_ff=8))
    for family in ("encoder-decoder", "decoder-only", "encoder-only")
)


def test_rows_are_shifted_by_one_and_padded():
    batch = collate([Example((5, 6), (7, 8, 9)), Example((5,), (7,))], TRANSLATOR)
    assert batch.rows.src.tolist() == [[5, 6, 2], [5, 2, 0]]
    assert batch.rows.src_valid.tolist() == [[True, True, True], [True, True, False]]
    assert batch.rows.tgt.tolist() == [[1, 7, 8, 9], [1, 7, 0, 0]]
    assert batch.labels.tolist() == [[7, 8, 9, 2], [7, 2, 0, 0]]
    assert batch.loss_mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert batch.n_labels == 6
    batch.labels[:] = -100  # which leaves the input alone
    assert batch.rows.tgt[0].tolist() == [1, 7, 8, 9]


def test_an_encoder_reads_the_text_whole_and_its_words_are_the_labels():
    batch = collate([Example((), (7, 8)), Example((), (9,))], ENCODER)
    assert batch.rows.src is None
    assert batch.rows.tgt.tolist() == batch.labels.tolist() == [[1, 7, 8, 2], [1, 9, 2, 0]]
    assert batch.loss_mask.tolist() == [[False, True, True, False], [False, True, False, False]]
    assert batch.n_labels == 3


def test_marks_may_be_absent_or_one(monkeypatch):
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
def test_every_example_is_in_one_batch_and_no_batch_is_too_large(pairs, max_tokens, epoch):
    examples = made(pairs)
    plan = plan_batches(examples, max_tokens, seed=3, epoch=epoch)
    assert sorted(i for indices in plan for i in indices) == list(range(len(examples)))
    for indices in plan:
        width = 1 + max(max(len(examples[i].src), len(examples[i].tgt)) for i in indices)
        assert len(indices) == 1 or width * len(indices) <= max_tokens
    assert plan == plan_batches(examples, max_tokens, seed=3, epoch=epoch)


@given(lengths, st.integers(1, 5))
def test_shares_of_a_batch_add_up_to_it(pairs, n_shares):
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


def test_the_order_follows_from_epoch_and_seed_and_the_first_batches_can_be_skipped():
    examples = made([(n % 7 + 1, n % 5 + 1) for n in range(60)])
    plans = [plan_batches(examples, 30, seed, epoch) for seed, epoch in ((1, 0), (1, 1), (2, 0))]
    assert plans[0] != plans[1]
    assert plans[0] != plans[2]
    every = list(batches(examples, TRANSLATOR, 30, seed=1, epoch=0))
    rest = list(batches(examples, TRANSLATOR, 30, seed=1, epoch=0, skip=3))
    assert len(every) > 4
    assert all(torch.equal(a.rows.tgt, b.rows.tgt) for a, b in zip(every[3:], rest, strict=True))


def test_pairs_are_read_with_quotes_left_alone_and_texts_to_their_mark(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text('He said "hi.\t他说“嗨”。\tsomewhere #1\n\nYes.\t是。\n', encoding="utf-8")
    assert read_pairs(path) == [('He said "hi.', "他说“嗨”。"), ("Yes.", "是。")]
    path = tmp_path / "stories.txt"
    path.write_text("One.\nTwo.\n<|endoftext|>\nThree.\n<|endoftext|>\n", encoding="utf-8")
    assert read_texts(path) == ["One.\nTwo.", "Three."]


@pytest.mark.parametrize("first", ["\ufeffsource\ttarget\tnote\n", "en\tzh\r\n", "\ufeff"])
def test_a_header_is_no_pair_and_is_named(tmp_path, capsys, first):
    path = tmp_path / "pairs.tsv"
    path.write_text(f"{first}Yes.\t是。\nsource\ttarget\n", encoding="utf-8")
    rows = rows_of(read_recipe("en-zh", []), path, "--valid", held_apart=True)
    assert rows == [("Yes.", "是。"), ("source", "target")]
    names = ", ".join(first.strip("\ufeff").split())
    skipped = f"{path}: skipped the first row, a header: {names}\n" if names else ""
    assert capsys.readouterr().err == skipped


@pytest.mark.parametrize(
    ("row", "message"),
    [("no tab", r"pairs\.tsv, line 2: no TAB"), ("c\t" + "d" * 200_000, r"line 2: field larger")],
)
def test_a_row_that_is_no_pair_is_named(tmp_path, row, message):
    path = tmp_path / "pairs.tsv"
    path.write_text(f"a\tb\n{row}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_pairs(path)


def test_what_is_too_long_is_left_out_or_cut():
    tokenizer = train_tokenizer(["a b c d e f", "g h i j"] * 2, vocab_size=60)
    pairs = [("a b", "g h"), ("a b c d e f", "g"), ("a", "")]
    assert len(encode_pairs(pairs, tokenizer, n_ctx=5)) == 1
    pieces = encode_texts(["a b c d e f"], tokenizer, n_ctx=5)
    assert [len(e.tgt) for e in pieces] == [4, 2]
    assert [i for e in pieces for i in e.tgt] == tokenizer.encode("a b c d e f")
    marked = encode_texts(["a b c d e f"], tokenizer, n_ctx=5, n_marks=2)
    assert [len(e.tgt) for e in marked] == [3, 3]


@pytest.mark.parametrize(
    ("task", "expected"),
    [("copy", ("c", "a", "b")), ("reverse", ("b", "a", "c")), ("sort", ("a", "b", "c"))],
)
def test_tasks_by_hand(task, expected):
    assert solve(task, ("c", "a", "b")) == expected
    [(question, answer)] = task_pairs(task, 1, (3, 3), 3, seed=1)
    assert tuple(answer.split()) == solve(task, tuple(question.split()))


def test_pairs_differ_repeat_with_their_seed_and_rows_to_choose_by_are_not_trained_on():
    pairs = task_pairs("copy", 300, (2, 4), 6, seed=4)
    assert len({question for question, _ in pairs}) == 300
    assert {len(question.split()) for question, _ in pairs} == {2, 3, 4}
    assert {symbol for question, _ in pairs for symbol in question.split()} == set("abcdef")
    assert pairs == task_pairs("copy", 300, (2, 4), 6, seed=4)
    assert pairs != task_pairs("copy", 300, (2, 4), 6, seed=5)
    config = DataConfig(task="sort", examples=80, valid_examples=20, lengths=(2, 3), symbols=10)
    rows, valid = make_rows(config, paired=True, seed=3)
    assert (len(rows), len(valid)) == (80, 20)
    assert not set(rows) & set(valid)


def test_a_language_models_question_and_answer_are_one_row():
    config = DataConfig(task="reverse", examples=5, valid_examples=1, lengths=(3, 3), symbols=9)
    for row in make_rows(config, paired=False, seed=3)[0]:
        question, answer = row.split(" = ")
        assert answer == question[::-1]


def test_a_file_is_read_as_the_recipe_says(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("one\t一\nsomething long\t二\ntwo\t一二三四五\n", encoding="utf-8")
    assert read_rows(path, DataConfig(longest=4), paired=True) == [("one", "一")]
    turned = read_rows(path, DataConfig(reverse=True), paired=True)
    assert turned[1] == ("二", "something long")
    with pytest.raises(ValueError, match="no text that this recipe uses"):
        read_rows(path, DataConfig(longest=2), paired=True)


def test_impossible_settings_and_rows_are_refused_by_name():
    impossible = {"task": ["shuffle"], "symbols": [1], "longest": [0]}
    for field, values in (impossible | {"lengths": [(0, 3), (4, 3), (4,)]}).items():
        for value in values:
            with pytest.raises(ValueError, match=field):
                DataConfig(**{field: value})
    with pytest.raises(ValueError, match="no task"):
        make_rows(DataConfig(), paired=True, seed=1)
    with pytest.raises(ValueError, match="only 4 exist"):
        task_pairs("copy", 3, (2, 2), 2, seed=0)


MARKS = Marks(pad=0, start=1, end=2, unknown=3, mask=4)
SIZES = {"vocab_size": 14, "d_model": 24, "n_layers": 1, "n_heads": 4, "d_ff": 40, "n_ctx": 32}
PRE_NORM = {"dropout": 0.0, "norm_placement": "pre", "final_norm": True}
CONFIG = ModelConfig(family="encoder-only", **SIZES, **PRE_NORM)
SETTINGS = TrainingConfig(
    epochs=30, max_tokens=400, warmup=20, learning_rate=1e-2, average=1, precision="float32"
)
# Every text repeats one word: a hidden one is known from its neighbours, never by itself.
TEXTS = [Example((), (word,) * n) for word in range(5, 14) for n in range(5, 12)]


def built(seed: int = 0, marks: Marks = MARKS) -> Model:
    torch.manual_seed(seed)
    model = build_model(CONFIG)
    model.marks = marks
    return model


def test_15_percent_of_the_words_of_each_row_are_chosen_and_at_least_one():
    rows, valid = padded([[5] * n for n in (1, 3, 10, 20, 40)])
    words = valid.clone()
    words[4, 20:] = False
    _, chosen = with_words_masked(Rows(rows, valid), words, MARKS, 14)
    assert chosen.sum(1).tolist() == [1, 1, 2, 3, 3]  # 1.5 rounds to 2
    assert not (chosen & ~words).any()
    nothing = torch.zeros_like(words)
    assert not with_words_masked(Rows(rows, valid), nothing, MARKS, 14)[1].any()


def test_8_of_10_are_hidden_and_one_becomes_another_word():
    tokens = torch.full((400, 200), 9)
    rows, chosen = with_words_masked(Rows(tokens), torch.ones_like(tokens).bool(), MARKS, 14)
    assert torch.equal(rows.tgt[~chosen], tokens[~chosen])
    found = rows.tgt[chosen]
    n = len(found)
    assert n == 400 * 30
    assert (found == 4).sum() / n == pytest.approx(MASKED, abs=0.015)
    others = found[(found != 4) & (found != 9)]
    words = 9  # 5 to 13, of which 9 itself is one
    assert len(others) / n == pytest.approx(RANDOM * (words - 1) / words, abs=0.015)
    assert set(others.tolist()) == {5, 6, 7, 8, 10, 11, 12, 13}  # no mark is among them


def test_it_learns_to_fill_in_what_is_hidden(tmp_path):
    model = built()
    before = fill_in(model, TEXTS, 400)
    curve = Trainer(model, Material(TEXTS, TEXTS), SETTINGS, tmp_path, [MaskedWords()]).run().curve
    assert before.accuracy < 0.5
    assert curve[-1]["valid_accuracy"] > 90
    filled = fill_in(model, TEXTS, 400)
    assert curve[-1]["valid_loss"] == round(filled.loss, 4)
    assert curve[-1]["valid_accuracy"] == round(100 * filled.accuracy, 2)
    assert filled == fill_in(model, TEXTS, 400)
    rows = Rows(torch.tensor([[1, 7, 7, 4, 7, 2]]))
    assert int(model.eval().read(rows)[0, 3].argmax()) == 7


def test_it_is_refused_where_it_cannot_be(tmp_path):
    story = build_model(dataclasses.replace(CONFIG, family="decoder-only"))
    with pytest.raises(ValueError, match="masked_words is for encoder-only models"):
        Trainer(story, Material(TEXTS), SETTINGS, tmp_path, [MaskedWords()])
    without = built(marks=dataclasses.replace(MARKS, mask=None))
    with pytest.raises(ValueError, match="needs a tokenizer with a mask token"):
        Trainer(without, Material(TEXTS), SETTINGS, tmp_path, [MaskedWords()])
    with pytest.raises(ValueError, match="not for encoder-only ones: masked_words is"):
        Trainer(built(), Material(TEXTS), SETTINGS, tmp_path, [Likelihood()])


def test_a_recipe_trains_it_and_the_shell_scores_it(tmp_path, capsys):
    texts = [f"the {a} saw the {a} and the {a}" for a in ("cat", "dog", "fox")] * 3
    (tmp_path / "texts.txt").write_text("\n<|endoftext|>\n".join(texts), encoding="utf-8")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        '[model]\nfamily = "encoder-only"\nvocab_size = 60\nd_model = 16\nn_layers = 1\n'
        "n_heads = 2\nd_ff = 16\nn_ctx = 8\n"
        "[training]\nepochs = 2\naverage = 1\n[objectives.masked_words]\n"
    )
    data = str(tmp_path / "texts.txt")
    arguments = ["train", "--recipe", str(recipe), "--data", data, "--valid", data]
    arguments += ["--out", str(tmp_path / "run")]
    assert main(arguments) == 1
    needed = capsys.readouterr().err.split("set model.vocab_size=")[1].strip()
    assert main([*arguments, "--set", f"model.vocab_size={needed}"]) == 0
    rows = [json.loads(row) for row in capsys.readouterr().out.splitlines() if row[0] == "{"]
    assert all({"valid_loss", "valid_accuracy"} <= set(row) for row in rows)
    trained = load_checkpoint(tmp_path / "run" / "checkpoint")
    assert trained.tokenizer.marks.mask is not None
    assert trained.model.marks == trained.tokenizer.marks
    evaluate = ["evaluate", "--model", str(tmp_path / "run" / "checkpoint"), "--pairs", data]
    assert main(evaluate) == 0
    scored = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(scored) == {"model", "loss", "accuracy", "words"}
    assert scored["words"] > 0
