"""The mean of a run's best snapshots (Vaswani et al. 2017, §6.1)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from models.checkpoint import load_weights
from models.transformer import Model


def best_epochs(curve: Sequence[Mapping[str, float | int]], n: int) -> list[int]:
    """The `n` best epochs (from 1) by BLEU, if known, else by validation loss, else the last."""

    def goodness(row: Mapping[str, float | int]) -> tuple[float, float]:
        return (float(row.get("bleu", 0)), -float(row.get("valid_loss", -row["epoch"])))

    best = sorted(curve, key=goodness, reverse=True)[:n]
    return sorted(int(row["epoch"]) for row in best)


def average_snapshots(model: Model, paths: list[Path]) -> None:
    """Set `model`'s weights to the mean of snapshots (Vaswani et al. 2017, §6.1).

    Raises ValueError if `paths` is empty, CheckpointError if a snapshot does not fit the model.
    """
    if not paths:
        raise ValueError("there are no snapshots to average")
    total: dict[str, Tensor] = {}
    for path in paths:
        load_weights(model, path)
        for name, parameter in model.named_parameters():
            total[name] = total.get(name, torch.zeros_like(parameter, dtype=torch.float64))
            total[name] += parameter.detach().double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(total[name] / len(paths))
