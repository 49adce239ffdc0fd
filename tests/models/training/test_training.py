"""The training loop: it repeats itself from its seed, keeps snapshots, and names bad settings."""

import dataclasses
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from toy_runs import CONFIG, EXAMPLES, SETTINGS, same, trainer, weights

from models.checkpoint import CheckpointError
from models.marks import END, START
from models.rows import Rows
from models.training.averaging import average_snapshots, best_epochs
from models.training.forcing import teacher_forced
from models.training.loop import EPOCHS
from models.training.saving import SNAPSHOTS, snapshot_name, snapshots
from models.training.settings import TrainingConfig, learning_rate
from models.transformer import build_model


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    """The same one is the same run: `test_resuming.py`."""
    losses = set()
    for seed in (1, 2):
        settings = dataclasses.replace(SETTINGS, seed=seed, epochs=1, average=1)
        losses.add(trainer(tmp_path / str(seed), settings).run().curve[0]["loss"])
    assert len(losses) == 2


def test_snapshots_are_kept_for_the_best_epochs_and_averaged(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, epochs=3)
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
