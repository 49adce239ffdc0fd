"""Faults that are planted and removed during training: in the objective, and in the masks.

Each behaves like a program with that fault, including that program's own measurements: without the
causal mask, accuracy under teacher forcing is also measured without it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from explorer.training.setup import Fault
from models.rows import Rows
from models.training.data import Batch
from models.training.faults import Masks, masked_as
from models.training.loss import sequence_loss
from models.training.objectives import Likelihood, Loss, Training
from models.transformer import Model

HOTTER = 10
"""The factor by which the learning rate is too high under `rate_high`."""


def masks_of(faults: set[Fault]) -> Masks:
    """The masks under which a model runs with these faults."""
    if "no_causal" in faults:
        return "no_causal"
    return "pad_visible" if "pad_visible" in faults else "right"


def labels_of(batch: Batch, faults: set[Fault]) -> Tensor:
    """The labels [batch, tgt] that a program with these faults uses."""
    return batch.rows.tgt if "labels_unshifted" in faults else batch.labels


def outputs_of(
    model: Model, rows: Rows, faults: set[Fault], read: Callable[[Rows], Tensor] | None = None
) -> Tensor:
    """The logits [batch, tgt, vocab] that a program with these faults passes to its loss; `read`
    computes them, by default the model itself."""
    with masked_as(masks_of(faults), model, rows.tgt_valid):
        logits = (read or model.read)(rows)
    return logits.softmax(-1) if "double_softmax" in faults else logits


@dataclass(kw_only=True)
class FaultyLikelihood(Likelihood):
    """Likelihood with the currently planted faults; without any, equal to `Likelihood`."""

    label_smoothing: float = 0.0
    planted: set[Fault] = field(default_factory=set)

    name: ClassVar[str] = "faulty_likelihood"

    def loss(self, batch: Batch, training: Training) -> Loss:
        """The cross-entropy as computed by the faulty program."""
        logits = outputs_of(training.model, batch.rows, self.planted, training.logits)
        labels = labels_of(batch, self.planted)
        total = sequence_loss(logits, labels, batch.loss_mask, self.label_smoothing)
        return Loss(total, shown=total)
