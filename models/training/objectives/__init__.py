"""What a training minimises: one objective a file, named by recipes, put together by no one else.

A recipe names its objectives as tables, `[objectives.likelihood]`, whose fields are those of the
class (`registry.py`). Exactly one of them is the `main` one: it learns from the batch itself, and
the curve shows its loss. Any others are added to it, each with a weight of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from models.rows import Rows
from models.training.data import Batch, Material
from models.training.settings import TrainingConfig
from models.transformer import Model


class Loss(NamedTuple):
    """An objective's share of one step, summed over the labels of this process's part of a batch.

    The loop divides by the number of labels in the whole batch, so that the parts of several
    processes add up to what one process would have computed.
    """

    minimised: Tensor  # scalar, with a gradient
    shown: Tensor | None = None  # scalar: what the training curve shows; None for nothing


@runtime_checkable
class Training(Protocol):
    """The training that an objective serves, as far as objectives may look at it."""

    model: Model
    config: TrainingConfig
    material: Material
    objectives: "Sequence[Objective]"

    @property
    def step(self) -> int:
        """The number of steps already taken."""
        ...

    @property
    def share(self) -> tuple[int, int]:
        """(i, n): this is the i-th of n processes."""
        ...

    def logits(self, rows: Rows, model: Model | None = None) -> Tensor:
        """Float32 logits [batch, tgt, vocab] of the model in training, or of another one.

        Computed in the precision of the training, and by way of DDP, so that the gradients of all
        processes are added up.
        """
        ...


@runtime_checkable
class Objective(Protocol):
    """A term of what is minimised. Its public fields are its settings, as in a recipe.

    An objective may keep what it prepared, so it serves one training at a time.
    """

    name: ClassVar[str]  # of its table in a recipe
    main: ClassVar[bool] = False  # it learns from the batch itself: a training has exactly one

    def prepare(self, training: Training) -> None:
        """Called once, before the first step and before a stopped run is read again.

        `training.model` has the weights that the whole run begins with. Raises ValueError where
        this objective cannot serve this training.
        """
        return

    def loss(self, batch: Batch, training: Training) -> Loss:
        """The objective on one batch. The model is in training mode, and stays in it.

        torch's random numbers are seeded by (seed, step, process) before each step: an objective
        that draws from them, or from `training.step` alone, makes a resumed run end with the same
        bits.
        """
        ...

    def metrics(self, training: Training) -> dict[str, float]:
        """Figures for the curve after an epoch, measured on `training.material.valid`."""
        return {}


def settings_of(objectives: Sequence[Objective]) -> dict[str, dict[str, Any]]:
    """The tables of a recipe that name these objectives: {"likelihood": {"label_smoothing": 0}}."""
    return {
        objective.name: {k: v for k, v in vars(objective).items() if not k.startswith("_")}
        for objective in objectives
    }


def check_objectives(objectives: Sequence[Objective]) -> None:
    """Raises ValueError unless exactly one objective is a main one."""
    mains = [objective.name for objective in objectives if objective.main]
    if len(mains) != 1:
        raise ValueError(
            f"{', '.join(mains) or 'no objective'} would learn from the batch: it must be exactly "
            "one (likelihood, unless another is named)"
        )


def check_weight(name: str, weight: float) -> None:
    """Raises ValueError, naming the objective, for a negative weight."""
    if weight < 0:
        raise ValueError(f"{name} is {weight}: it must be at least 0")


@dataclass(kw_only=True)
class OfOwnText(Objective):
    """An objective about what a language model writes itself, added with a weight.

    Raises ValueError for a negative weight.
    """

    weight: float = 1.0

    def __post_init__(self) -> None:
        check_weight(self.name, self.weight)

    def prepare(self, training: Training) -> None:
        """Raises ValueError for a model that continues no text."""
        config = training.model.config
        if config.reads_source or not config.is_causal:
            raise ValueError(
                f"{self.name} is {self.weight}: it is for decoder-only models, which continue a "
                "text"
            )
