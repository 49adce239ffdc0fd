"""Teacher forcing: how well a model predicts each next token of given texts."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from models.training.data import Example, batches
from models.training.faults import Masks, masked_as
from models.training.loss import sequence_loss
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
