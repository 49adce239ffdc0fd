"""The start of a training run: a fresh model on its task, and its first step, taken on a copy."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from explorer.leftovers import prefix
from explorer.problems import InputProblem
from explorer.sandbox.apart import Away
from explorer.seeding import seeded
from explorer.training.learning import HeadsFrame, SetupTrainer, ValidationScores
from explorer.training.opened import opened
from explorer.training.setup import Setup, check
from explorer.training.tasks import corpus


@dataclass(frozen=True, eq=False)
class Before:
    """A fresh model of a setup on its task; `first` is the record of its first step (`opened`).

    `about` is the result of `SetupTrainer.about`.
    """

    about: dict[str, Any]
    frame: HeadsFrame
    measured: ValidationScores
    first: dict[str, Any]

    @property
    def parameters(self) -> int:
        """The number of trainable parameters."""
        return int(self.about["parameters"])

    @property
    def vocab(self) -> int:
        """The size of the vocabulary."""
        return int(self.about["vocab"])


def before(setup: Setup, name: str, at: tuple[int, ...], away: Away | None = None) -> Before:
    """The start of a training run, with its first step opened at index `at` of parameter `name`.

    `away` is as for `corpus`. Raises InputProblem as `corpus` and `check`, and
    `training_no_room` without a temporary folder.
    """
    found = corpus(setup, away)
    check(setup, *found.sizes)
    try:
        folder = tempfile.TemporaryDirectory(prefix=prefix())
    except OSError as error:
        raise InputProblem("training_no_room") from error
    with (
        folder as place,
        seeded(setup.seed),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        learner = SetupTrainer(setup, found, Path(place))
        frame, measured, about = learner.frame(), learner.measure(), learner.about()
        first = opened(learner, name or learner.usual_weight, at)
    return Before(about, frame, measured, first)
