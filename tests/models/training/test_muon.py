"""Muon: orthogonal steps, the same as torch's own, and resumable inside a training run."""

import dataclasses
from pathlib import Path

import pytest
import torch
from toy_runs import CONFIG, SETTINGS, same, trainer, weights, without_times

from models.training.muon import Muon, orthogonalised
from models.training.optimizers import make_optimizers
from models.transformer import build_model

MUON = dataclasses.replace(SETTINGS, optimizer="muon", learning_rate=1e-2)


@pytest.mark.parametrize("shape", [(24, 24), (40, 24), (24, 40), (1, 7)])
def test_every_direction_is_brought_to_about_the_same_length(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    matrix = torch.randn(shape)
    u, s, vt = torch.linalg.svd(matrix, full_matrices=False)
    turned = orthogonalised(matrix)
    along = u.T @ turned @ vt.T  # the same directions, other lengths
    lengths = along.diagonal()
    assert lengths.min() > 0.6
    assert lengths.max() < 1.3
    if len(s) > 1:
        assert s.max() / s.min() > 1.5  # they had been different
    torch.testing.assert_close(along, lengths.diag(), atol=1e-4, rtol=0)


def test_zeros_stay_zeros() -> None:
    assert not orthogonalised(torch.zeros(3, 5)).any()


def test_the_steps_are_those_of_torch_up_to_its_bfloat16() -> None:
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


def test_only_matrices_are_taken() -> None:
    with pytest.raises(ValueError, match=r"\(4,\)"):
        Muon([torch.nn.Parameter(torch.ones(4))], lr=0.1)


def test_it_takes_the_matrices_of_the_blocks_and_adam_the_rest() -> None:
    model = build_model(CONFIG)
    adam, muon = make_optimizers(model, MUON)
    taken = {id(p) for group in muon.param_groups for p in group["params"]}
    names = {name for name, p in model.named_parameters() if id(p) in taken}
    assert "encoder.blocks.0.ffn.w_up.weight" in names
    assert "decoder.blocks.0.cross_attn.w_o.weight" in names
    assert not any("embed" in name or "norm" in name or "bias" in name for name in names)
    others = {id(p) for group in adam.param_groups for p in group["params"]}
    assert taken | others == {id(p) for p in model.parameters()}
    assert not taken & others


def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    whole = trainer(tmp_path / "whole", MUON)
    expected = without_times(whole.run().curve)
    assert expected[-1]["loss"] < expected[0]["loss"]

    steps = iter(range(10**6))
    trainer(tmp_path / "parts", MUON).run(stop=lambda: next(steps) >= 7)
    resumed = trainer(tmp_path / "parts", MUON)
    assert resumed.progress.step == 7
    assert without_times(resumed.run().curve) == expected
    assert same(weights(resumed.model), weights(whole.model))
