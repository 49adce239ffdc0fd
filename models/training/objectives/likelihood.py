"""Maximum likelihood: cross-entropy with the label, smoothed (Szegedy et al. 2016, §7)."""

from dataclasses import dataclass
from typing import ClassVar

from models.training.data import Batch
from models.training.forcing import teacher_forced
from models.training.loss import sequence_loss
from models.training.objectives import Loss, Objective, Training


@dataclass(kw_only=True)
class Likelihood(Objective):
    """Predict every label. Raises ValueError for a `label_smoothing` outside [0, 1)."""

    label_smoothing: float = 0.1

    name: ClassVar[str] = "likelihood"
    main: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing is {self.label_smoothing}: it must be in [0, 1)")

    def prepare(self, training: Training) -> None:
        """Raises ValueError if the model does not predict the next token."""
        if not training.model.config.generates:
            raise ValueError(
                f"{self.name} is for models that predict the next token, not for "
                f"{training.model.config.family} ones: masked_words is"
            )

    def loss(self, batch: Batch, training: Training) -> Loss:
        """The cross-entropy of all labels that count, summed."""
        logits = training.logits(batch.rows)
        total = sequence_loss(logits, batch.labels, batch.loss_mask, self.label_smoothing)
        return Loss(total, shown=total)

    def metrics(self, training: Training) -> dict[str, float]:
        """`valid_loss` in nats per label, without smoothing; empty without a validation set."""
        valid = training.material.valid
        if not valid:
            return {}
        forced = teacher_forced(training.model, valid, training.config.max_tokens)
        return {"valid_loss": round(forced.loss, 4)}
