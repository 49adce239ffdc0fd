"""A training and its orders: what its process says when it is steered, and the way back."""

import io
import json
import queue
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from explorer.exhibits.training.steer import zipped
from explorer.library import LoadedModel, open_model
from explorer.runs.generation import generate
from explorer.runs.passes import seeded
from explorer.runs.trace import trace
from explorer.training.learning import DivergedError, SetupTrainer
from explorer.training.opened import opened, untrained
from explorer.training.process import EndedError, TrainingProcess
from explorer.training.runs import TrainingRun
from explorer.training.setup import Setup, format_setup, parse_setup
from explorer.training.tasks import corpus
from models.strategies import Greedy

TINY = Setup(task="copy", d_model=8, n_layers=1, n_heads=2, d_ff=8, steps=12, batch=64, warmup=2)


def learner(folder: Path, setup: Setup = TINY) -> SetupTrainer:
    with seeded(1):
        return SetupTrainer(setup, corpus(setup), folder)


def said(folder: Path, *orders: dict[str, Any], **begin: Any) -> list[dict[str, Any]]:
    waiting: queue.Queue[dict[str, Any]] = queue.Queue()
    for order in orders:
        waiting.put(order)
    out, start = io.StringIO(), {"folder": str(folder), **begin}
    with seeded(1):
        TrainingProcess(start, waiting, out).run()
    return [json.loads(line) for line in out.getvalue().splitlines()]


def heard(folder: Path, *orders: dict[str, Any], setup: Setup = TINY, **begin: Any) -> TrainingRun:
    """The training as those who watch it know it."""
    run = TrainingRun(1, setup, folder)
    for message in said(folder, *orders, setup=setup.as_json(), **begin):
        run.hear(message)
    return run


def unpacked(folder: Path) -> LoadedModel:
    """The model that the page gives as a zip."""
    with zipfile.ZipFile(io.BytesIO(zipped(folder / "checkpoint"))) as archive:
        archive.extractall(folder / "mine")
    return open_model(folder / "mine")


def test_a_training_runs_to_its_end_and_leaves_a_model(tmp_path):
    run = heard(tmp_path)
    assert run.state == "done"
    assert len(run.loss) == len(run.norm) == run.step == 12
    assert [score.step for score in run.scores] == [0, 12]
    assert [frame.step for frame in run.frames] == [0, 10, 12]
    assert run.frames[0].patterns[0].shape == (2, *run.frames[0].patterns[0].shape[1:])
    assert run.frames[-1].patterns[0].sum(-1) == pytest.approx(1, abs=2e-3)
    assert 0 <= run.scores[-1].free <= 1
    assert open_model(tmp_path / "checkpoint").model.reads == ("src", "tgt")
    again = unpacked(tmp_path)
    assert (again.name, again.config) == ("mine", TINY.config(again.tokenizer.vocab_size))
    assert "12 of 12 steps" in (tmp_path / "checkpoint" / "CARD.md").read_text()


def test_faults_and_going_back_leave_what_was_planted(tmp_path):
    run = TrainingRun(1, TINY, tmp_path)
    steps = {"kind": "steps", "first": 1, "loss": [4.0], "norm": [1.0]}
    run.hear(steps)
    run.hear({"kind": "kept", "step": 1})
    seen = run.copy()
    run.hear({**steps, "first": 2})
    run.hear({"kind": "dropped", "step": 1})
    assert (run.step, run.kept) == (2, set())
    assert (seen.step, seen.kept) == (1, {1})
    run = TrainingRun(1, TINY, tmp_path, loss=[1.0] * 50)
    run.faults = [(0, "rate_high", True), (30, "no_causal", True)]
    assert run.planted() == run.planted(50) == ("rate_high", "no_causal")
    assert run.planted(40) == ("rate_high", "no_causal")
    assert run.planted(30) == run.planted(20) == ("rate_high",)
    run.hear({"kind": "back", "step": 20})
    assert run.faults == [(0, "rate_high", True)]
    assert run.step == 20


def test_a_source_with_a_vocabulary_of_its_own_is_trained_kept_and_read(tmp_path):
    pairs = "\n".join(
        f"{word} {word}\t{number}" for word, number in zip("abcd", "1234", strict=True)
    )
    setup = replace(TINY, task="own", text=pairs, vocabularies="apart", steps=10, warmup=2)
    assert heard(tmp_path, setup=setup).state == "done"
    again = unpacked(tmp_path)
    written, read = (again.tokenizer.of(stream) for stream in ("tgt", "src"))
    assert again.config.n_tokens("src") == read.vocab_size
    assert again.config.n_tokens("tgt") == written.vocab_size
    assert (read.unknown("1"), written.unknown("a")) == (["1"], ["a"])
    example = learner(tmp_path / "again", setup).material.valid[0]
    assert read.decode(example.src) in {f"{each} {each}" for each in "abcd"}
    assert written.decode(example.tgt) in set("1234")
    found = trace(again, "a b", "1")
    assert "".join(found.src_str_tokens).count("a") == 1
    assert found.tgt_str_tokens[-1] == "1"
    assert generate(again, "a b", Greedy(), 3).src_str_tokens == found.src_str_tokens


def test_a_stop_keeps_what_was_learnt(tmp_path):
    run = heard(tmp_path, {"do": "stop"})
    assert (run.state, run.step) == ("stopped", 0)
    assert (tmp_path / "checkpoint" / "model.safetensors").is_file()
    with pytest.raises(EndedError):
        heard(tmp_path, {"do": "end"})


def test_wound_back_it_takes_the_same_steps_and_orders_between_them(tmp_path):
    straight = heard(tmp_path / "one")
    again = heard(tmp_path / "one", {"do": "go"}, back=6, paused=True)
    assert again.state == "done"
    assert again.loss == pytest.approx(straight.loss[6:], abs=1e-5)
    assert again.scores[-1].loss == pytest.approx(straight.scores[-1].loss, abs=1e-5)
    run = heard(
        tmp_path,
        {"do": "pause"},
        {"do": "open", "name": "decoder.blocks.0.ffn.w_up.weight", "at": [1, 2]},
        {"do": "fault", "name": "no_causal", "on": True},
        {"do": "go"},
    )
    assert run.state == "done"
    assert run.opened["step"] == 1
    assert run.faults == [(1, "no_causal", True)]
    assert run.planted() == ("no_causal",)
    assert {0, 1, 12} <= run.kept


def test_numbers_that_are_none_stop_it_and_can_be_wound_back(tmp_path):
    made = learner(tmp_path)
    made.snapshot()
    batch = made.next_batch()
    kept = {name: each.clone() for name, each in made.state.weights().items()}
    with torch.no_grad():
        made.model.unembed.weight[0, 0] = float("nan")
    with pytest.raises(DivergedError):
        made.take(batch)
    assert made.snapshot() is None  # nothing that is no number is kept
    made.back_to(0)
    assert all(torch.equal(each, kept[name]) for name, each in made.state.weights().items())
    made.model.unembed.weight.register_hook(lambda gradient: gradient * float("inf"))
    for step in (made.take, lambda _: opened(made, "encoder.embed.weight", (9, 3))):
        with pytest.raises(DivergedError, match="gradient"):
            step(made.next_batch())
        assert made.snapshot() is None
        made.back_to(0)


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("decoder.blocks.0.cross_attn.w_k.weight", (3, 5)),
        ("encoder.blocks.0.ffn.w_down.bias", (2,)),
        ("decoder.final_norm.weight", (4,)),
        ("encoder.embed.weight", (9, 3)),
    ],
)
def test_a_step_by_formula_is_the_step_by_autograd(tmp_path, name, at):
    with seeded(1):
        made = learner(tmp_path, replace(TINY, smoothing=0.1))
        for _ in range(3):
            made.take(made.next_batch())
        told = opened(made, name, at)
    assert told["name"] == name
    assert told["grad"] != 0
    assert told["formula"] == pytest.approx(told["grad"], rel=1e-3, abs=1e-7)
    # Where the step leaves almost nothing of the weight, float32 rounds by the size of both.
    rounding = 1e-6 * max(abs(told["before"]), abs(told["adamw"]["step"]))
    assert told["adamw"]["after"] == pytest.approx(told["after"], rel=1e-5, abs=rounding)
    assert told["adamw"]["m"] == pytest.approx(told["moments_after"][0], rel=1e-4, abs=1e-9)
    means = [sum(row) / len(row) for row in told["losses"]]
    assert min(means) < told["loss"] < max(means)


def test_faults_change_gradients_and_what_is_measured(tmp_path):
    made = learner(tmp_path)
    made.faults.add("no_zero_grad")
    made.take(made.next_batch())
    assert made.model.get_parameter("encoder.embed.weight").grad[9, 3] != 0  # the step's, left over
    told = opened(made, "encoder.embed.weight", (9, 3))
    assert told["formula"] == pytest.approx(told["grad"], rel=1e-3, abs=1e-7)
    made = learner(tmp_path)
    right = made.measure()
    assert abs(right.padded) < 1e-5
    made.faults.add("pad_visible")
    assert abs(made.measure().padded) > 1e-3
    made.faults.clear()
    made.faults.add("double_softmax")
    assert made.measure().loss > right.loss - 1
    assert made.measure().forced == right.forced
    rate = made.rate()
    made.faults.add("rate_high")
    assert made.rate() == pytest.approx(10 * rate)
    faulty = untrained(replace(Setup(), fault="labels_unshifted"), "", (0, 0)).opened
    assert faulty["labels"] == faulty["read"]


def test_a_link_says_what_differs_and_the_config_follows():
    setup = Setup(task="sort", n_heads=2, norm="rmsnorm", bias=False, rate=0.001, seed=7)
    text = format_setup(setup)
    assert text == "task-sort~n_heads-2~norm-rmsnorm~bias-0~rate-0.001~seed-7"
    assert parse_setup(text) == setup
    assert format_setup(Setup()) == ""
    assert parse_setup("") == Setup()
    assert format_setup(Setup(task="own", text="a\tb")) == "task-own"
    config = Setup(scores="d_head", n_kv_heads=2, norm_placement="post").config(40)
    assert (config.divisor, config.kv_heads, config.final_norm) == (16.0, 2, False)
    assert Setup().config(40).final_norm
    assert Setup(fault="no_warmup").training().warmup == 1
    assert replace(Setup(), warmup=9).training().warmup == 9


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps-99999", "10 to 3000"),
        ("norm-batch", "norm"),
        ("bias-2", "neither 0 nor 1"),
        ("text-abc", "no setting"),
        ("rate-x", "float"),
    ],
)
def test_a_link_with_an_impossible_value_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        parse_setup(text)
