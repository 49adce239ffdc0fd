"""What the best of many heads reaches by chance: the same pick among copies with shuffled weights.

The best of many heads is above the average head in any model. So its score is compared with the
best score in copies whose matrices have their rows and their columns shuffled, each matrix by
itself: the sizes of the weights stay, what training wrote into them is gone. The copies of a model
with freshly drawn weights are draws like the model itself, so a pick that must beat all of them is
wrong about such a model in 1 of COPIES + 1 cases at most (a permutation test; Phipson & Smyth 2010,
"Permutation P-values Should Never Be Zero").
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from explorer.library import LoadedModel
from explorer.seeding import seeded
from models.fast import speed_up
from models.transformer import Model, build_model

COPIES, SEED = 19, 27
RATE = 1 / (COPIES + 1)
"""How often the best head of a model with random weights beats all copies, at most."""
MARGIN = 1.5
"""Standard deviations of the copies' scores by which all must be beaten: beating them would be
enough for RATE on average, and should be so in any hundred models."""
Scores = Mapping[Any, Float[np.ndarray, "layer head"]]


@dataclass(frozen=True, eq=False)
class Chance:
    """The best head's score in each copy, by what was measured."""

    best: dict[str, Float[np.ndarray, " copy"]]

    def most(self, name: str) -> float:
        """The best score of any copy."""
        return float(self.best[name].max())

    def beaten(self, name: str, score: float) -> bool:
        """Whether a score is above that of every copy, by MARGIN at least."""
        return bool(score > self.most(name) + MARGIN * self.best[name].std())


def by_chance(
    loaded: LoadedModel,
    measure: Callable[[LoadedModel], Scores],
    tell: Callable[[int, int], object] | None = None,
) -> Chance:
    """The best scores that `measure` finds in the copies; `tell(done, total)` counts them."""
    copy, draw = _copy(loaded.model), torch.Generator().manual_seed(SEED)
    best: dict[str, list[float]] = {}
    for done in range(COPIES):
        shuffle(copy, draw)  # once more: a shuffled shuffle is one like any other
        for name, scores in measure(replace(loaded, model=copy)).items():
            best.setdefault(name, []).append(float(np.nanmax(scores)))
        if tell is not None:
            tell(done + 1, COPIES)
    return Chance({name: np.array(scores) for name, scores in best.items()})


def shuffle(model: Model, draw: torch.Generator) -> None:
    """Shuffle the rows and the columns of every matrix of a model, in place."""
    for parameter in model.parameters():
        if parameter.ndim == 2:
            rows, columns = (torch.randperm(n, generator=draw) for n in parameter.shape)
            parameter.data = parameter.data[rows.to(parameter.device)][:, columns].contiguous()


def _copy(model: Model) -> Model:
    """A model of the same weights that shares none."""
    weight = next(model.parameters())
    with seeded(SEED):  # it draws weights, which are replaced
        copy = build_model(model.config)
    copy = copy.to(weight.device, weight.dtype).requires_grad_(False).eval()
    copy.load_state_dict(model.state_dict())
    copy.marks = model.marks
    speed_up(copy)
    return copy
