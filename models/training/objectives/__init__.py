"""Training objectives, one per file, combined by recipes.

A recipe names its objectives as tables such as `[objectives.likelihood]`, whose fields are those of
the class (`registry.py`). Exactly one is the `main` objective: it learns from the batch itself, and
the training curve shows its loss. Others are added to it, each with its own weight.
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
    """An objective's loss in one step, summed over the labels of this process's part of the batch.

    The loop divides by the number of labels in the whole batch, so that the parts of several
    processes add up to the loss of a single process.
    """

    minimised: Tensor  # scalar, with a gradient
    shown: Tensor | None = None  # scalar for the training curve; None: not shown


@runtime_checkable
class Training(Protocol):
    """The part of a training run that objectives may use."""

    model: Model
    config: TrainingConfig
    material: Material
    objectives: "Sequence[Objective]"

    @property
    def step(self) -> int:
        """The number of completed steps."""
        ...

    @property
    def share(self) -> tuple[int, int]:
        """(i, n): this is the i-th of n processes."""
        ...

    def logits(self, rows: Rows, model: Model | None = None) -> Tensor:
        """Float32 logits [batch, tgt, vocab] of the trained model, or of another `model`.

        Computed in the precision of the training and through DDP, so that the gradients of all
        processes are summed.
        """
        ...


@runtime_checkable
class Objective(Protocol):
    """A term of the minimised loss. Its public fields are its settings in a recipe.

    An objective may store prepared state, so use one instance for one training run at a time.
    """

    name: ClassVar[str]  # of its table in a recipe
    main: ClassVar[bool] = False  # whether it learns from the batch: exactly one per training run

    def prepare(self, training: Training) -> None:
        """Called once, before the first step and before a stopped run is restored.

        `training.model` has the initial weights of the run. Raises ValueError if this objective is
        not valid for this training run.
        """
        return

    def loss(self, batch: Batch, training: Training) -> Loss:
        """The loss on one batch. The model is in training mode, and must be left in it.

        torch is seeded by (seed, step, process) before each step: if an objective takes randomness
        only from torch or from `training.step`, a resumed run is reproduced bit for bit.
        """
        ...

    def metrics(self, training: Training) -> dict[str, float]:
        """Metrics for the curve after an epoch, measured on `training.material.valid`."""
        return {}


def settings_of(objectives: Sequence[Objective]) -> dict[str, dict[str, Any]]:
    """These objectives as tables of a recipe: {"likelihood": {"label_smoothing": 0}}."""
    return {
        objective.name: {k: v for k, v in vars(objective).items() if not k.startswith("_")}
        for objective in objectives
    }


def check_objectives(objectives: Sequence[Objective]) -> None:
    """Raise ValueError unless exactly one objective is a main one."""
    mains = [objective.name for objective in objectives if objective.main]
    if len(mains) != 1:
        raise ValueError(
            f"{', '.join(mains) or 'no objective'} would learn from the batch: it must be exactly "
            "one (likelihood, unless another is named)"
        )


def check_weight(name: str, weight: float) -> None:
    """Raise ValueError, naming the objective, if the weight is negative."""
    if weight < 0:
        raise ValueError(f"{name} is {weight}: it must be at least 0")


@dataclass(kw_only=True)
class OfOwnText(Objective):
    """An objective on a language model's own generated text, added with a weight.

    Raises ValueError for a negative weight.
    """

    weight: float = 1.0

    def __post_init__(self) -> None:
        check_weight(self.name, self.weight)

    def prepare(self, training: Training) -> None:
        """Raises ValueError unless the model is decoder-only."""
        config = training.model.config
        if config.reads_source or not config.is_causal:
            raise ValueError(
                f"{self.name} is {self.weight}: it is for decoder-only models, which continue a "
                "text"
            )
