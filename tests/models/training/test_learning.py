"""A training run learns: a toy task that it then generates, and agreement of two passes."""

import dataclasses
from pathlib import Path

import pytest
import torch
from toy_runs import CONFIG, EXAMPLES, SETTINGS, VALID, task_examples

from models.decoding import best, decode
from models.marks import END, PAD
from models.rows import padded
from models.strategies import Greedy
from models.training.data import Material, collate
from models.training.loop import Trainer
from models.training.objectives import Objective
from models.training.objectives.likelihood import Likelihood
from models.training.objectives.r_drop import RDrop, disagreement
from models.transformer import build_model


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
