"""The training loop: it repeats itself from its seed, keeps snapshots, and names bad settings."""

import dataclasses
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny import tiny_config
from toy_runs import CONFIG, EXAMPLES, SETTINGS, same, trainer, weights, without_times

from models.checkpoint import CheckpointError
from models.hooks import NO_EDITS, VISITOR, Edits, Record, visiting
from models.marks import END, START
from models.rows import Rows
from models.training import saving
from models.training.faults import Masks, masked_as
from models.training.loop import EPOCHS, Trainer
from models.training.loss import sequence_loss, teacher_forced
from models.training.optimizers import Muon, make_optimizers
from models.training.saving import (
    SNAPSHOTS,
    average_snapshots,
    best_epochs,
    snapshot_name,
    snapshots,
)
from models.training.settings import TrainingConfig, learning_rate
from models.transformer import Model, build_model


def test_snapshots_are_kept_for_the_best_epochs_and_averaged(tmp_path):
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


def test_the_best_epochs_are_chosen_by_bleu_then_by_loss():
    rows = [(1, 3.0, 5.0), (2, 2.0, 9.0), (3, 1.0, 7.0), (4, 1.5, 9.0)]
    curve = [{"epoch": e, "valid_loss": loss, "bleu": bleu} for e, loss, bleu in rows]
    assert best_epochs(curve, 2) == [2, 4]
    assert best_epochs(curve, 1) == [4]
    assert best_epochs([{"epoch": e, "valid_loss": loss} for e, loss, _ in rows], 2) == [3, 4]
    assert best_epochs([{"epoch": e} for e, _, _ in rows], 2) == [3, 4]


def test_no_or_foreign_snapshots_and_a_folder_with_another_run_are_refused(tmp_path):
    model = build_model(CONFIG)
    with pytest.raises(ValueError, match="no snapshot"):
        average_snapshots(model, [])
    (tmp_path / "x.safetensors").write_bytes(b"no")
    with pytest.raises(CheckpointError):
        average_snapshots(model, [tmp_path / "x.safetensors"])
    steps = iter(range(10))
    trainer(tmp_path).run(stop=lambda: next(steps) >= 2)
    with pytest.raises(ValueError, match=r"learning_rate = 0\.003, not 0\.01"):
        trainer(tmp_path, dataclasses.replace(SETTINGS, learning_rate=0.01))


def test_learning_rate_by_hand():
    root = TrainingConfig(warmup=4, learning_rate=1.0)
    assert [learning_rate(s, 100, root) for s in (0, 1, 3)] == [0.25, 0.5, 1.0]
    assert learning_rate(15, 100, root) == pytest.approx(0.5)  # sqrt(4 / 16)
    cosine = TrainingConfig(warmup=4, learning_rate=1.0, schedule="cosine")
    assert learning_rate(54, 104, cosine) == pytest.approx(0.5)
    assert learning_rate(104, 104, cosine) == pytest.approx(0.0)


@pytest.mark.parametrize("field", ["epochs", "max_tokens", "learning_rate", "clip", "warmup"])
def test_impossible_settings_are_named(field):
    with pytest.raises(ValueError, match=f"{field} is 0"):
        TrainingConfig(**{field: 0})


def test_teacher_forcing_does_not_depend_on_batching_or_leave_the_mode_changed():
    model = build_model(CONFIG).train()
    one, other = (teacher_forced(model, EXAMPLES, max_tokens) for max_tokens in (40, 400))
    assert one.loss == pytest.approx(other.loss, 1e-5)
    assert one.accuracy == pytest.approx(other.accuracy, 1e-5)
    assert model.training


def test_the_accuracy_of_teacher_forcing_by_hand():
    model = build_model(CONFIG).eval()
    [first] = EXAMPLES[:1]
    src = torch.tensor([[*first.src, END]])
    guesses = model.read(Rows(torch.tensor([[START, *first.tgt]]), src=src)).argmax(-1)[0].tolist()
    right = sum(a == b for a, b in zip(guesses, (*first.tgt, END), strict=True))
    assert teacher_forced(model, [first], 40).accuracy == pytest.approx(right / len(guesses))


def test_snapshots_are_the_weights_at_their_steps(tmp_path):
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


MUON = dataclasses.replace(SETTINGS, optimizer="muon", learning_rate=1e-2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Trainer:
    """A run that nothing stopped."""
    whole = trainer(tmp_path_factory.mktemp("whole"))
    whole.run()
    return whole


@pytest.mark.parametrize(("settings", "stop_after"), [(SETTINGS, 1), (SETTINGS, 20), (MUON, 7)])
def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path, whole, settings, stop_after):
    if settings is MUON:
        whole = trainer(tmp_path / "whole", MUON)
        whole.run()
    curve = without_times(whole.progress.curve)
    assert whole.total_steps > 20
    assert curve[-1]["loss"] < curve[0]["loss"]
    steps = iter(range(10**6))
    trainer(tmp_path / "parts", settings).run(stop=lambda: next(steps) >= stop_after)
    resumed = trainer(tmp_path / "parts", settings)
    assert resumed.progress.step == stop_after
    assert without_times(resumed.run().curve) == curve
    assert same(weights(resumed.model), weights(whole.model))


def test_a_run_that_ends_while_it_saves_goes_on_to_the_same_bits(tmp_path, whole, monkeypatch):
    """As when it is killed in the middle of a write: the state before is still whole."""
    write, n_saved = saving.save_file, 0

    def half(tensors: dict[str, torch.Tensor], path: Path, metadata: dict[str, str]) -> None:
        nonlocal n_saved
        write(tensors, path, metadata=metadata)
        n_saved += 1
        if n_saved == 3:
            path.write_bytes(path.read_bytes()[:1000])
            raise SystemExit

    monkeypatch.setattr(saving, "save_file", half)
    with pytest.raises(SystemExit):
        trainer(tmp_path, dataclasses.replace(SETTINGS, save_seconds=1e-6)).run()
    resumed = trainer(tmp_path)
    assert resumed.progress.step == 2
    assert without_times(resumed.run().curve) == without_times(whole.progress.curve)
    assert same(weights(resumed.model), weights(whole.model))


# Muon: orthogonal steps, the same as torch's own, and resumable inside a training run.
def test_the_steps_are_those_of_torch_up_to_its_bfloat16():
    torch.manual_seed(0)
    ours, theirs = (torch.nn.Parameter(torch.randn(12, 20)) for _ in range(2))
    theirs.data.copy_(ours.data)
    start = ours.detach().clone()
    rate = {"lr": 0.01, "weight_decay": 0.1}
    optimizers = (
        Muon([ours], **rate),
        torch.optim.Muon([theirs], **rate, adjust_lr_fn="match_rms_adamw"),
    )
    for _ in range(5):
        ours.grad = torch.randn(12, 20)
        theirs.grad = ours.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    moved, expected = ours.detach() - start, theirs.detach() - start
    assert (moved - expected).norm() < 0.03 * expected.norm()


def test_it_takes_the_matrices_of_the_blocks_alone_and_adam_the_rest():
    with pytest.raises(ValueError, match=r"\(4,\)"):
        Muon([torch.nn.Parameter(torch.ones(4))], lr=0.1)
    model = build_model(CONFIG)
    adam, muon = make_optimizers(model, MUON)
    taken = {id(p) for group in muon.param_groups for p in group["params"]}
    names = {name for name, p in model.named_parameters() if id(p) in taken}
    assert "encoder.blocks.0.ffn.w_up.weight" in names
    assert "decoder.blocks.0.cross_attn.w_o.weight" in names
    assert not any("embed" in name or "norm" in name or "bias" in name for name in names)
    (first, *_), *_ = (group["params"] for group in adam.param_groups)
    first.grad = torch.ones_like(first)
    before = first.detach().clone()
    adam.step()  # of Adam's first step, each entry is the learning rate
    torch.testing.assert_close(before * (1 - 1e-2 * MUON.weight_decay) - first, 0 * first + 1e-2)
    others = {id(p) for group in adam.param_groups for p in group["params"]}
    assert taken | others == {id(p) for p in model.parameters()}
    assert not taken & others


BATCH, N_TGT, VOCAB = 3, 5, 11


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    logits = 3 * torch.randn(BATCH, N_TGT, VOCAB, dtype=torch.float64)
    labels = torch.randint(VOCAB, (BATCH, N_TGT))
    mask = torch.rand(BATCH, N_TGT) < 0.6
    return logits, labels, mask


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_equal_to_torch_forward_and_backward(smoothing):
    logits, labels, mask = inputs()
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss = sequence_loss(ours, labels, mask, smoothing)
    ignored = labels.masked_fill(~mask, -100)
    expected = torch.nn.functional.cross_entropy(
        theirs.flatten(0, 1), ignored.flatten(), label_smoothing=smoothing, reduction="sum"
    )
    torch.testing.assert_close(loss, expected)
    (2 * loss).backward()
    (2 * expected).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


SRC = torch.tensor([[5, 6, 2], [5, 2, 0]])
TGT = torch.tensor([[1, 7, 8, 9], [1, 7, 0, 0]])
CAUSAL = torch.ones(4, 4, dtype=torch.bool).tril()


@pytest.fixture
def model() -> Model:
    return build_model(tiny_config()).eval()


def seen(model: Model, masks: Masks) -> dict[str, torch.Tensor]:
    """The mask [batch, query, key] of each site's first head, under a fault."""
    found: dict[str, torch.Tensor] = {}
    with masked_as(masks, model, TGT != 0):
        fault = VISITOR.get()  # to be asked beside a record, since only one visitor is
    edits = fault if isinstance(fault, Edits) else NO_EDITS
    record = Record(lambda name: name.endswith("hook_mask"), edits)
    with visiting(record):
        model.read(Rows(TGT, TGT != 0, SRC, SRC != 0))
    for name, mask in record.activations.items():
        found[name.removesuffix(".hook_mask")] = mask[:, 0]
    return found


def test_each_kind_of_masks_is_wrong_just_where_it_says(model):
    right = seen(model, "right")
    own = "decoder.blocks.0.attn"
    padded = (TGT != 0)[:, None, :].expand(2, 4, 4)
    assert torch.equal(right[own], CAUSAL & padded)
    assert torch.equal(right["encoder.blocks.0.attn"], (SRC != 0)[:, None, :].expand(2, 3, 3))
    for masks, causes in (("no_causal", padded), ("pad_visible", CAUSAL.expand(2, 4, 4))):
        wrong = seen(model, masks)
        for name, mask in wrong.items():
            if name.startswith("decoder") and name.endswith(".attn"):
                assert torch.equal(mask, causes), name
            elif masks == "pad_visible":
                assert mask.all(), name
            else:
                assert torch.equal(mask, right[name]), name
    for name, mask in seen(model, "inverted").items():
        assert torch.equal(mask, ~right[name]), name
