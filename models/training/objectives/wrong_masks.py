"""Likelihood under wrong masks, for training the twins that show what a mask is for."""

from dataclasses import dataclass
from typing import ClassVar, get_args

from models.training.data import Batch
from models.training.faults import Masks, masked_as
from models.training.forcing import teacher_forced
from models.training.objectives import Loss, OfOwnText, Training
from models.training.objectives.likelihood import Likelihood


@dataclass(kw_only=True)
class WrongMasks(Likelihood):
    """Likelihood with every pass under `masks`. Raises ValueError for unknown masks."""

    masks: Masks = "inverted"

    name: ClassVar[str] = "wrong_masks"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.masks not in get_args(Masks):
            options = ", ".join(get_args(Masks))
            raise ValueError(f"masks is {self.masks!r}: it must be one of {options}")

    def prepare(self, training: Training) -> None:
        """Raises ValueError as `Likelihood` does, and if another objective generates text."""
        super().prepare(training)
        for other in training.objectives:
            if isinstance(other, OfOwnText):
                raise ValueError(
                    f"{other.name} is {other.weight}: a text is continued under the right masks, "
                    f"not {self.masks!r} ones"
                )

    def loss(self, batch: Batch, training: Training) -> Loss:
        """As `Likelihood`, under these masks."""
        with masked_as(self.masks, training.model, batch.rows.tgt_valid):
            return super().loss(batch, training)

    def metrics(self, training: Training) -> dict[str, float]:
        """`valid_loss` under these masks too."""
        valid = training.material.valid
        if not valid:
            return {}
        forced = teacher_forced(training.model, valid, training.config.max_tokens, self.masks)
        return {"valid_loss": round(forced.loss, 4)}
