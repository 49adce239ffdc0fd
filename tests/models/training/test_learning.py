"""A training run learns a toy task, which it then generates."""

import dataclasses
from pathlib import Path

import torch
from toy_runs import CONFIG, SETTINGS, task_examples

from models.decoding import best, decode
from models.marks import END, PAD
from models.rows import padded
from models.strategies import Greedy
from models.training.data import Material
from models.training.loop import Trainer
from models.transformer import build_model


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
