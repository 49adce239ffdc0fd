"""Cross-entropy over the labels that count, with label smoothing and a custom backward pass; and
teacher forcing: how well a model predicts each next token of given texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from models.training.data import Example, batches
from models.training.faults import Masks, masked_as
from models.transformer import Model


@dataclass(frozen=True)
class TeacherForcingScore:
    """Teacher-forced means over the labels that count: loss in nats and top-1 accuracy."""

    loss: float
    accuracy: float


@torch.no_grad()
def teacher_forced(
    model: Model, examples: Sequence[Example], max_tokens: int, masks: Masks = "right"
) -> TeacherForcingScore:
    """Loss without smoothing, and accuracy, over all labels that count, in eval mode."""
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    total, n_right, n_labels = 0.0, 0, 0
    for batch in batches(examples, model, max_tokens, seed=0, epoch=0):
        moved = batch.to(device)
        with masked_as(masks, model, moved.rows.tgt_valid):
            logits = model.read(moved.rows)
        total += float(sequence_loss(logits, moved.labels, moved.loss_mask))
        n_right += int(((logits.argmax(-1) == moved.labels) & moved.loss_mask).sum())
        n_labels += batch.n_labels
    model.train(was_training)
    return TeacherForcingScore(total / max(1, n_labels), n_right / max(1, n_labels))


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Cross-entropy against (1 - e) on the label and e spread evenly over the vocabulary.

    loss = log sum exp(z) - (1 - e) z[label] - e mean(z), with the gradient softmax(z) - target.
    The logits are the largest tensor of a training step, and torch's own label smoothing makes
    several more passes over them (measured: 0.45 s, compared with 0.16 s here, for 2,000 x 8,000 on
    one core).
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, weights: Tensor, e: float) -> Tensor:
        n_vocab = logits.shape[-1]
        log_sum = logits.logsumexp(-1)
        at_label = logits.gather(-1, labels[:, None])[:, 0]
        losses = log_sum - (1 - e) * at_label - e * logits.mean(-1)
        ctx.save_for_backward(logits, labels, weights, log_sum)
        ctx.e, ctx.n_vocab = e, n_vocab
        return (losses * weights).sum()

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor, None, None, None]:
        logits, labels, weights, log_sum = ctx.saved_tensors
        grad = (logits - log_sum[:, None]).exp_().sub_(ctx.e / ctx.n_vocab)
        grad.scatter_add_(-1, labels[:, None], torch.full_like(log_sum, ctx.e - 1)[:, None])
        return grad.mul_((weights * grad_out)[:, None]), None, None, None


def sequence_loss(
    logits: Float[Tensor, "batch tgt vocab"],
    labels: Int[Tensor, "batch tgt"],
    loss_mask: Bool[Tensor, "batch tgt"],
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Sum of the losses, in nats, at the positions where `loss_mask` is True.

    With smoothing e the target is (1 - e) on the label and e spread evenly over the vocabulary
    (Szegedy et al. 2016, §7; Vaswani et al. 2017, §5.4). The result is a sum, not a mean, so that
    the parts of a batch split over processes add up to the same number. Takes logits, not
    probabilities.
    """
    loss: Tensor = _SmoothedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        logits.flatten(0, 1),
        labels.flatten(),
        loss_mask.flatten().to(logits.dtype),
        label_smoothing,
    )
    return loss
