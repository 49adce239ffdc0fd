"""R-Drop: two passes with different dropout should give the same predictions.

Liang et al. 2021, R-Drop: Regularized Dropout for Neural Networks, arXiv 2106.14448.
"""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor

from models.training.data import Batch
from models.training.loss import sequence_loss
from models.training.objectives import Loss, Training, check_weight
from models.training.objectives.likelihood import Likelihood


@dataclass(kw_only=True)
class RDrop(Likelihood):
    """Run the batch twice in one pass, with different dropout, and penalise disagreement.

    The loss is the mean of both cross-entropies + weight / 2 * their disagreement: half of eq. 3 of
    the paper, so that learning rates are comparable to training without R-Drop. Raises ValueError
    for a negative weight.
    """

    weight: float = 5.0

    name: ClassVar[str] = "r_drop"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_weight(self.name, self.weight)

    def loss(self, batch: Batch, training: Training) -> Loss:
        """The R-Drop loss; the curve shows the mean cross-entropy of the two passes."""
        twice = batch.twice()
        logits = training.logits(twice.rows)
        total = sequence_loss(logits, twice.labels, twice.loss_mask, self.label_smoothing)
        one, other = logits.chunk(2)
        apart = disagreement(one, other, batch.loss_mask)
        return Loss(total / 2 + self.weight / 2 * apart, shown=total / 2)


def disagreement(
    one: Float[Tensor, "batch tgt vocab"],
    other: Float[Tensor, "batch tgt vocab"],
    loss_mask: Bool[Tensor, "batch tgt"],
) -> Float[Tensor, ""]:
    """(KL(p||q) + KL(q||p)) / 2 of two passes' predictions, summed where `loss_mask` is True.

    Eq. 2 of the paper; both directions together are sum (p - q) (log p - log q).
    """
    log_p, log_q = one[loss_mask].log_softmax(-1), other[loss_mask].log_softmax(-1)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum() / 2
