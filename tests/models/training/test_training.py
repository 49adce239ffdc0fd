"""The training loop: it learns, it repeats itself, and a kill at any moment loses nothing."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from models.checkpoint import SNAPSHOTS, CheckpointError, snapshot_name, snapshots
from models.config import ModelConfig
from models.decoding import decode
from models.marks import END, PAD, START
from models.rows import Rows, padded
from models.steps import best
from models.strategies import Greedy
from models.training.averaging import average_snapshots, best_epochs
from models.training.data import Example, Material, collate
from models.training.forcing import teacher_forced
from models.training.loop import EPOCHS, Trainer
from models.training.objectives import Objective
from models.training.objectives.likelihood import Likelihood
from models.training.objectives.r_drop import RDrop, disagreement
from models.training.settings import TrainingConfig, learning_rate
from models.training.state import STATE
from models.training.tasks import Task, task_pairs
from models.transformer import Model, build_model

CONFIG = ModelConfig(
    vocab_size=12, d_model=24, n_layers=1, n_heads=4, d_ff=40, dropout=0.1, positions="rotary"
)
SETTINGS = TrainingConfig(
    epochs=2, max_tokens=50, warmup=10, learning_rate=3e-3, precision="float32", average=2
)


def task_examples(task: Task, n: int, lengths: tuple[int, int], seed: int) -> list[Example]:
    """A toy task over the eight letters after the special ids, without a tokenizer."""
    first = 4 - ord("a")
    return [
        Example(*(tuple(ord(symbol) + first for symbol in row.split()) for row in pair))
        for pair in task_pairs(task, n, lengths, 8, seed)
    ]


EXAMPLES = task_examples("reverse", 120, (2, 6), seed=0)
VALID = task_examples("reverse", 20, (2, 6), seed=1)


def trainer(folder: Path, settings: TrainingConfig = SETTINGS) -> Trainer:
    torch.manual_seed(settings.seed)
    return Trainer(build_model(CONFIG), Material(EXAMPLES, VALID), settings, folder)


def weights(model: Model) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def without_times(curve: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in curve]


def test_the_same_seed_is_the_same_run_and_another_is_not(tmp_path: Path) -> None:
    first, second = trainer(tmp_path / "a"), trainer(tmp_path / "b")
    other = trainer(tmp_path / "c", dataclasses.replace(SETTINGS, seed=2))
    curves = [without_times(t.run().curve) for t in (first, second, other)]
    assert curves[0] == curves[1]
    assert same(weights(first.model), weights(second.model))
    assert curves[0] != curves[2]


@pytest.mark.parametrize("stop_after", [1, 7, 20])
def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path: Path, stop_after: int) -> None:
    whole = trainer(tmp_path / "whole")
    expected = without_times(whole.run().curve)
    assert whole.total_steps > 20

    steps = iter(range(10**6))
    trainer(tmp_path / "parts").run(stop=lambda: next(steps) >= stop_after)
    resumed = trainer(tmp_path / "parts")
    assert resumed.progress.step == stop_after
    assert without_times(resumed.run().curve) == expected
    assert same(weights(resumed.model), weights(whole.model))


def test_a_killed_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    """SIGKILL while the state is being written again and again; then resume."""
    script = f"""
import dataclasses, sys
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
import torch
torch.set_num_threads(1)
import importlib.util
spec = importlib.util.spec_from_file_location("training", {__file__!r})
module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)
settings = dataclasses.replace(module.SETTINGS, save_seconds=1e-6)
from pathlib import Path
run = module.trainer(Path(sys.argv[1]), settings)
print("ready", flush=True)
run.run()
"""
    folder = tmp_path / "killed"
    for _ in range(2):  # the second life gets a little further
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        seen = (folder / STATE).stat().st_mtime_ns if (folder / STATE).exists() else 0
        while process.poll() is None:
            now = (folder / STATE).stat().st_mtime_ns if (folder / STATE).exists() else 0
            if now != seen:
                os.kill(process.pid, signal.SIGKILL)
                break
        process.wait()
        process.stdout.close()
    whole = trainer(tmp_path / "whole")
    expected = without_times(whole.run().curve)
    resumed = trainer(folder)
    assert resumed.progress.step > 0
    assert without_times(resumed.run().curve) == expected
    assert same(weights(resumed.model), weights(whole.model))


def test_a_folder_with_another_run_is_refused(tmp_path: Path) -> None:
    steps = iter(range(10))
    trainer(tmp_path).run(stop=lambda: next(steps) >= 2)
    with pytest.raises(ValueError, match=r"learning_rate = 0\.003, not 0\.01"):
        trainer(tmp_path, dataclasses.replace(SETTINGS, learning_rate=0.01))


def test_snapshots_are_kept_for_the_best_epochs_and_averaged(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, epochs=4)
    run = trainer(tmp_path, settings)
    curve = run.run().curve
    kept = sorted((tmp_path / EPOCHS).glob("*.safetensors"))
    best_two = best_epochs(curve, 2)
    assert [path.stem for path in kept] == [f"epoch-{epoch:03d}" for epoch in best_two]
    average_snapshots(run.model, kept)
    stored = [load_file(path) for path in kept]
    for name, parameter in run.model.named_parameters():
        mean = (stored[0][name].double() + stored[1][name].double()) / 2
        torch.testing.assert_close(parameter.detach(), mean.float())


def test_the_best_epochs_are_chosen_by_bleu_then_by_loss() -> None:
    rows = [(1, 3.0, 5.0), (2, 2.0, 9.0), (3, 1.0, 7.0), (4, 1.5, 9.0)]
    curve = [{"epoch": e, "valid_loss": loss, "bleu": bleu} for e, loss, bleu in rows]
    assert best_epochs(curve, 2) == [2, 4]
    assert best_epochs(curve, 1) == [4]
    assert best_epochs([{"epoch": e, "valid_loss": loss} for e, loss, _ in rows], 2) == [3, 4]
    assert best_epochs([{"epoch": e} for e, _, _ in rows], 2) == [3, 4]


def test_no_or_foreign_snapshots_are_refused(tmp_path: Path) -> None:
    model = build_model(CONFIG)
    with pytest.raises(ValueError, match="no snapshot"):
        average_snapshots(model, [])
    (tmp_path / "x.safetensors").write_bytes(b"no")
    with pytest.raises(CheckpointError):
        average_snapshots(model, [tmp_path / "x.safetensors"])


def test_learning_rate_by_hand() -> None:
    root = TrainingConfig(warmup=4, learning_rate=1.0)
    assert [learning_rate(s, 100, root) for s in (0, 1, 3)] == [0.25, 0.5, 1.0]
    assert learning_rate(15, 100, root) == pytest.approx(0.5)  # sqrt(4 / 16)
    cosine = TrainingConfig(warmup=4, learning_rate=1.0, schedule="cosine")
    assert learning_rate(54, 104, cosine) == pytest.approx(0.5)
    assert learning_rate(104, 104, cosine) == pytest.approx(0.0)


@pytest.mark.parametrize("field", ["epochs", "max_tokens", "learning_rate", "clip", "warmup"])
def test_impossible_settings_are_named(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} is 0"):
        TrainingConfig(**{field: 0})  # type: ignore[arg-type]


def test_teacher_forcing_does_not_depend_on_batching_or_leave_the_mode_changed() -> None:
    model = build_model(CONFIG).train()
    one, other = (teacher_forced(model, EXAMPLES, max_tokens) for max_tokens in (40, 400))
    assert one.loss == pytest.approx(other.loss, 1e-5)
    assert one.accuracy == pytest.approx(other.accuracy, 1e-5)
    assert model.training


def test_the_accuracy_of_teacher_forcing_by_hand() -> None:
    model = build_model(CONFIG).eval()
    [first] = EXAMPLES[:1]
    src = torch.tensor([[*first.src, END]])
    guesses = model.read(Rows(torch.tensor([[START, *first.tgt]]), src=src)).argmax(-1)[0].tolist()
    right = sum(a == b for a, b in zip(guesses, (*first.tgt, END), strict=True))
    assert teacher_forced(model, [first], 40).accuracy == pytest.approx(right / len(guesses))


def test_snapshots_are_the_weights_at_their_steps(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, snapshots=(0, 3))
    untrained = weights(trainer(tmp_path / "other").model)
    run = trainer(tmp_path, settings)
    taken: list[dict[str, torch.Tensor]] = []

    def third() -> bool:
        if run.progress.step == 3:
            taken.append(weights(run.model))
        return run.progress.step == 3

    run.run(stop=third)
    assert snapshots(tmp_path) == (0, 3)
    for step, expected in ((0, untrained), (3, taken[0])):
        kept = load_file(tmp_path / SNAPSHOTS / snapshot_name(step))
        assert same(kept, {name: tensor.half() for name, tensor in expected.items()})


def test_r_drop_asks_two_passes_to_agree(tmp_path: Path) -> None:
    """Without dropout they agree anyway and nothing changes; with it, they learn to."""

    def made(name: str, r_drop: float, dropout: float) -> Trainer:
        torch.manual_seed(SETTINGS.seed)
        config = dataclasses.replace(CONFIG, dropout=dropout)
        settings = dataclasses.replace(SETTINGS, epochs=4)
        objective: Objective = RDrop(weight=r_drop) if r_drop else Likelihood()
        material = Material(EXAMPLES, VALID)
        made = Trainer(build_model(config), material, settings, tmp_path / name, [objective])
        made.run()
        return made

    # By their losses: Adam makes whole steps of what rounding leaves of a gradient that is 0.
    curves = [made(f"at {r_drop}", r_drop, 0.0).progress.curve for r_drop in (0.0, 5.0)]
    for plain, agreeing in zip(*curves, strict=True):
        assert agreeing["loss"] == pytest.approx(plain["loss"], abs=2e-3)
        assert agreeing["valid_loss"] == pytest.approx(plain["valid_loss"], abs=2e-3)

    def apart(trained: Trainer) -> float:
        batch = collate(VALID, trained.model)
        trained.model.train()
        torch.manual_seed(0)
        with torch.no_grad():
            one, other = trained.model.read(batch.twice().rows).chunk(2)
        return float(disagreement(one, other, batch.loss_mask)) / batch.n_labels

    assert apart(made("with", 5.0, 0.3)) < 0.8 * apart(made("without", 0.0, 0.3))


def test_it_learns_to_reverse_and_generates_what_it_learnt(tmp_path: Path) -> None:
    config = dataclasses.replace(
        CONFIG,
        d_model=32,
        dropout=0.0,
        positions="sinusoidal",
        norm_placement="pre",
        final_norm=True,
    )
    settings = dataclasses.replace(
        SETTINGS, epochs=12, max_tokens=300, warmup=30, learning_rate=1e-2, schedule="cosine"
    )
    torch.manual_seed(0)
    examples = task_examples("reverse", 1500, (2, 5), seed=0)
    run = Trainer(build_model(config), Material(examples), settings, tmp_path)
    curve = run.run().curve
    assert curve[-1]["loss"] < curve[0]["loss"] / 2
    model = run.model.eval()
    unseen = task_examples("reverse", 50, (2, 5), seed=2)
    src, src_valid = padded([(*e.src, END) for e in unseen], PAD)
    written = best(decode(model, src, Greedy(), 10, src_valid=src_valid))
    right = sum(h.tokens == (*e.tgt, END) for h, e in zip(written, unseen, strict=True))
    assert right >= 35  # by chance: none


def test_the_state_says_what_it_is(tmp_path: Path) -> None:
    from safetensors import safe_open

    trainer(tmp_path).run()
    with safe_open(tmp_path / STATE, framework="pt") as file:
        about = file.metadata()
    assert json.loads(about["run"])["model"]["d_model"] == CONFIG.d_model
    assert json.loads(about["progress"])["epoch"] == SETTINGS.epochs
