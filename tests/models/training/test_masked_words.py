"""Masked language modelling: which words are hidden, what counts, and that it is learnt."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from models.__main__ import main
from models.checkpoint import load_checkpoint
from models.config import ModelConfig
from models.marks import Marks
from models.rows import Rows, padded
from models.training.data import Example, Material, batches, collate
from models.training.loop import Trainer
from models.training.masked_words import MASKED, RANDOM, fill_in, with_words_masked
from models.training.objectives import Likelihood, MaskedWords
from models.training.settings import TrainingConfig
from models.transformer import Model, build_model

MARKS = Marks(pad=0, start=1, end=2, unknown=3, mask=4)
CONFIG = ModelConfig(
    family="encoder-only",
    vocab_size=14,
    d_model=24,
    n_layers=1,
    n_heads=4,
    d_ff=40,
    n_ctx=32,
    dropout=0.0,
    norm_placement="pre",
    final_norm=True,
)
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


def test_15_percent_of_the_words_of_each_row_are_chosen_and_at_least_one() -> None:
    rows, valid = padded([[5] * n for n in (1, 3, 10, 20, 40)])
    words = valid.clone()
    words[4, 20:] = False
    _, chosen = with_words_masked(Rows(rows, valid), words, MARKS, 14)
    assert chosen.sum(1).tolist() == [1, 1, 2, 3, 3]  # 1.5 rounds to 2
    assert not (chosen & ~words).any()
    nothing = torch.zeros_like(words)
    assert not with_words_masked(Rows(rows, valid), nothing, MARKS, 14)[1].any()


def test_8_of_10_are_hidden_and_one_becomes_another_word() -> None:
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


def test_the_loss_is_the_mean_of_the_chosen_times_the_words(tmp_path: Path) -> None:
    trainer = Trainer(built(), Material(TEXTS), SETTINGS, tmp_path, [MaskedWords()])
    batch = collate(TEXTS[:7], trainer.model)
    torch.manual_seed(5)
    loss = trainer.objectives[0].loss(batch, trainer)
    torch.manual_seed(5)
    rows, chosen = with_words_masked(batch.rows, batch.loss_mask, MARKS, 14)
    losses = -trainer.model.read(rows).log_softmax(-1).gather(-1, batch.labels[..., None])[..., 0]
    expected = losses[chosen].mean() * batch.n_labels
    torch.testing.assert_close(loss.minimised, expected)
    assert loss.shown is loss.minimised


def test_a_row_that_only_fills_a_share_adds_nothing(tmp_path: Path) -> None:
    trainer = Trainer(built(), Material(TEXTS), SETTINGS, tmp_path, [MaskedWords()])
    (batch,) = batches(TEXTS[:1], trainer.model, 400, seed=0, epoch=0, share=(1, 2))
    assert float(trainer.objectives[0].loss(batch, trainer).minimised.detach()) == 0


def test_it_learns_to_fill_in_what_is_hidden(tmp_path: Path) -> None:
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


def test_it_is_refused_where_it_cannot_be(tmp_path: Path) -> None:
    story = build_model(dataclasses.replace(CONFIG, family="decoder-only"))
    with pytest.raises(ValueError, match="masked_words is for encoder-only models"):
        Trainer(story, Material(TEXTS), SETTINGS, tmp_path, [MaskedWords()])
    without = built(marks=dataclasses.replace(MARKS, mask=None))
    with pytest.raises(ValueError, match="needs a tokenizer with a mask token"):
        Trainer(without, Material(TEXTS), SETTINGS, tmp_path, [MaskedWords()])
    with pytest.raises(ValueError, match="not for encoder-only ones: masked_words is"):
        Trainer(built(), Material(TEXTS), SETTINGS, tmp_path, [Likelihood()])


def test_a_recipe_trains_it_and_the_shell_scores_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
