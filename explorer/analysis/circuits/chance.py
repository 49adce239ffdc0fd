"""The best score of many heads by chance: the same selection in copies with shuffled weights.

In any model the best of many heads is above the average one. So its score is compared with the best
score in copies whose matrices have their rows and columns shuffled, each matrix separately: this
preserves the sizes of the weights and destroys what training wrote into them. Copies of a model
with freshly drawn weights are draws like the model itself. So requiring the best head to beat all
copies is wrong about such a model in at most 1 of COPIES + 1 cases (a permutation test; Phipson &
Smyth 2010, "Permutation P-values Should Never Be Zero").
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from explorer.library import LoadedModel
from explorer.numerics import beats
from explorer.runs.passes import Steps, seeded
from models.fast import speed_up
from models.transformer import Model, build_model

COPIES, SEED = 19, 27
RATE = 1 / (COPIES + 1)
"""The rate, at most, at which the best head of a model with random weights beats all copies."""
Scores = Mapping[Any, Float[np.ndarray, "layer head"]]


@dataclass(frozen=True, eq=False)
class Chance:
    """The best head's score in each copy, by measured quantity."""

    best: dict[str, Float[np.ndarray, " copy"]]

    def most(self, name: str) -> float:
        """The best score of any copy."""
        return float(self.best[name].max())

    def beaten(self, name: str, score: float) -> bool:
        """Whether a score exceeds every copy's by at least MARGIN."""
        return beats(score, self.best[name])


def by_chance(loaded: LoadedModel, measure: Callable[[LoadedModel], Scores]) -> Steps[Chance]:
    """The best scores that `measure` finds in the copies, one step per copy."""
    copy, draw = copy_of(loaded.model), torch.Generator().manual_seed(SEED)
    best: dict[str, list[float]] = {}
    for done in range(COPIES):
        shuffle(copy, draw)  # shuffling again gives another random copy
        for name, scores in measure(replace(loaded, model=copy)).items():
            best.setdefault(name, []).append(float(np.nanmax(scores)))
        yield done + 1, COPIES
    return Chance({name: np.array(scores) for name, scores in best.items()})


def shuffle(model: Model, draw: torch.Generator) -> None:
    """Shuffle the rows and columns of every matrix of a model, in place."""
    for parameter in model.parameters():
        if parameter.ndim == 2:
            rows, columns = (torch.randperm(n, generator=draw) for n in parameter.shape)
            parameter.data = parameter.data[rows.to(parameter.device)][:, columns].contiguous()


def copy_of(model: Model) -> Model:
    """A copy on the CPU in float32 that shares no weights with the model."""
    with seeded(SEED):  # the randomly drawn weights are overwritten
        copy = build_model(model.config)
    copy = copy.requires_grad_(False).eval()
    copy.load_state_dict(model.state_dict())
    copy.marks = model.marks
    speed_up(copy)
    return copy
