"""Scores and the shell commands, on a tiny model that really translates nothing."""

import dataclasses
import json
from pathlib import Path

import pytest
import sacrebleu
import torch
from foreign import Golden
from hypothesis import given, strategies as st
from tables import chain
from toy_runs import same, weights, write_untrained

from models import load_checkpoint
from models.__main__ import main
from models.foreign import open_folder
from models.training import evaluate as scores, repetition as measured
from models.training.repetition import (
    BEGINNING,
    CONTINUATION,
    N_GRAM,
    repeated,
    repetition,
    repetition_of,
)
from models.training.saving import SNAPSHOTS, snapshot_name, snapshots


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("checkpoints") / "tiny"
    write_untrained(path.with_name("story"), "decoder-only")
    return write_untrained(path)


def test_scores_are_sacrebleus_against_all_references(folder, monkeypatch):
    checkpoint = load_checkpoint(folder)
    said = ["狐狸和狗都好", "那只狗很好", "一只大猫"]
    monkeypatch.setattr(scores, "translate", lambda *args: said)
    pairs = [("a", "狐狸和狗都好"), ("b", "这狗很好"), ("b", "那只狗很好"), ("c", "一只小猫")]
    result = scores.evaluate_translation(checkpoint.model, checkpoint.tokenizer, pairs)
    references = [["狐狸和狗都好", "这狗很好", "一只小猫"], [None, "那只狗很好", None]]
    assert result.bleu == round(sacrebleu.corpus_bleu(said, references, tokenize="zh").score, 2)
    assert result.chrf == round(sacrebleu.corpus_chrf(said, references).score, 2)
    assert 0 < result.bleu < 100
    only_first = sacrebleu.corpus_bleu(said, references[:1], tokenize="zh").score
    assert result.bleu > only_first
    assert result.sentences == 3


def test_batched_translations_are_those_of_each_sentence_alone(folder, monkeypatch):
    checkpoint = load_checkpoint(folder)
    sentences = ["the fox", "a", "the dog a cat the fox", "cat"]
    monkeypatch.setattr(scores, "MAX_TOKENS", 12)  # two batches
    together = scores.translate(checkpoint.model, checkpoint.tokenizer, sentences)
    for sentence, translation in zip(sentences, together, strict=True):
        [alone] = scores.translate(checkpoint.model, checkpoint.tokenizer, [sentence])
        # A batch may write on for as long as its longest source allows.
        assert alone == translation or (len(alone) > 10 and translation.startswith(alone))


def test_a_language_model_continues_and_is_scored(folder, tmp_path, capsys):
    story = str(folder.with_name("story"))
    arguments = ["generate", "--model", story, "the fox", "--sample", "--seed", "5"]
    assert main([*arguments, "--max-new-tokens", "8"]) == 0
    first = capsys.readouterr().out
    assert first.startswith("the fox")
    assert main([*arguments, "--max-new-tokens", "8"]) == 0
    assert capsys.readouterr().out == first
    text = tmp_path / "text.txt"
    text.write_text("the fox\n<|endoftext|>\na cat\n", encoding="utf-8")
    assert main(["evaluate", "--model", story, "--pairs", str(text)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["perplexity"] == pytest.approx(torch.tensor(result["loss"]).exp().item(), 1e-3)
    assert result["tokens"] == len(["the", "fox"]) + len(["a", "cat"]) + 2
    assert "repetition" not in result  # nothing is left to compare after so short a beginning


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "--model", "{empty}", "hi"], "config.json is missing"),
        (["translate", "--model", "{story}", "hi"], "use `generate`"),
        (["translate", "--model", "{tiny}", "  "], "nothing to translate"),
        (["generate", "--model", "{story}", "fox", "--sample", "--top-p", "2"], "top_p"),
        (["evaluate", "--model", "{tiny}", "--pairs", "/nowhere.tsv"], "nowhere.tsv"),
        (["evaluate", "--model", "{tiny}"], "give --pairs"),
        (["train", "--recipe", "en-zh", "--out", "y"], "give a file to train on"),
        (["train", "--recipe", "nothing", "--data", "x", "--out", "y"], "no recipe 'nothing'"),
    ],
)
def test_a_mistake_gets_a_message_and_status_1(folder, arguments, message, capsys):
    empty = folder.with_name("empty")
    empty.mkdir(exist_ok=True)
    names = {"{tiny}": folder, "{story}": folder.with_name("story"), "{empty}": empty}
    assert main([str(names.get(a, a)) for a in arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error


def test_a_task_trains_without_a_file_and_a_second_model_begins_with_the_first(tmp_path, capsys):
    recipe = tmp_path / "task.toml"
    recipe.write_text(
        '[data]\ntask = "copy"\nexamples = 60\nvalid_examples = 9\nlengths = [2, 4]\nsymbols = 5\n'
        "[model]\nvocab_size = 15\nd_model = 16\nn_layers = 1\nn_heads = 2\nd_ff = 16\n"
        "[training]\nepochs = 1\nmax_tokens = 64\nwarmup = 5\nsnapshots = [0, 2]\naverage = 1\n"
    )
    first, second = tmp_path / "first", tmp_path / "second"
    assert main(["train", "--recipe", str(recipe), "--out", str(first)]) == 0
    (row,) = [json.loads(row) for row in capsys.readouterr().out.splitlines() if row[0] == "{"]
    assert row.keys() >= {"epoch", "bleu", "valid_loss"}
    trained = first / "checkpoint"
    assert main(["translate", "--model", str(trained), "a b"]) == 0
    assert snapshots(trained) == (0, 2)
    end = weights(load_checkpoint(trained).model)
    beginning = f"{SNAPSHOTS}/{snapshot_name(0)}"
    assert not same(weights(load_checkpoint(trained, beginning).model), end)
    arguments = ["evaluate", "--model", str(trained), "--recipe", str(recipe)]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["sentences"] == 9
    start = ["--set", f'data.start="{trained}"', "--out", str(second)]
    assert main(["train", "--recipe", str(recipe), *start]) == 0
    assert same(weights(load_checkpoint(second / "checkpoint", beginning).model), end)


def test_generate_writes_as_many_tokens_as_fit_and_refuses_more(tmp_path, capsys):
    folder = str(Golden.load("gpt2").write(tmp_path / "tiny", "own"))
    longest = open_folder(Path(folder)).config.longest
    assert longest < 64
    assert main(["generate", "--model", folder, "abc"]) == 0
    left = longest - 2  # of "abc" the first token is read, and the last that is written is not
    said = capsys.readouterr()
    assert f"note: at most {left} new tokens fit: n_ctx = {longest}" in said.err
    assert main(["generate", "--model", folder, "abc", "--max-new-tokens", f"{left + 1}"]) == 1
    assert f"{left} fit" in capsys.readouterr().err
    assert main(["generate", "--model", folder, "a" * (longest + 1)]) == 1
    assert f"src has {longest + 1} tokens" in capsys.readouterr().err


BOS, EOS, A, B, C, D, E = 1, 2, 3, 4, 5, 6, 7


@given(st.lists(st.integers(3, 5), max_size=24), st.integers(0, 12))
def test_a_token_is_repeated_when_an_n_gram_with_it_stood_before(row, start):
    copies = [
        j
        for j in range(start, len(row) - N_GRAM + 1)
        if any(row[i : i + N_GRAM] == row[j : j + N_GRAM] for i in range(j))
    ]
    assert repeated(row, start) == [
        any(j <= i < j + N_GRAM for j in copies) for i in range(len(row))
    ]


def test_the_share_of_repeated_n_grams_and_nothing_to_count():
    assert repetition([[A, B, C, D, E]]) == 0
    assert repetition([[A] * 7, [A, B, C, D]]) == pytest.approx(3 / 5)
    assert repetition([[A]]) == 0  # no n-gram at all


def test_a_looping_model_is_measured_beside_the_texts(monkeypatch):
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
