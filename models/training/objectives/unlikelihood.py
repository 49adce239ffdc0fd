"""Unlikelihood: penalise repetitions in a language model's own greedy continuations.

Welleck et al. 2020, Neural Text Generation with Unlikelihood Training, arXiv 1908.04319. Trained by
likelihood alone, a model assigns too much probability to repetitions, and greedy continuations
fall into loops (measured by `models/training/repetition.py`).
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from models.rows import Rows, padded
from models.training.data import Batch
from models.training.objectives import Loss, OfOwnText, Training
from models.training.repetition import CONTINUATION, continued, repeated
from models.transformer import Model


@dataclass(kw_only=True)
class Unlikelihood(OfOwnText):
    """Continue the beginnings of the batch's texts and penalise repeated tokens (§5.2)."""

    name: ClassVar[str] = "unlikelihood"

    def loss(self, batch: Batch, training: Training) -> Loss:
        """The number of given tokens varies with the step and is equal in all processes."""
        n_given = 8 + training.step % 41  # 8 to 48, including the start token
        own = own_words(training.model, batch, n_given)
        logits = training.logits(own.rows)
        return Loss(self.weight * unlikelihood(logits, own.labels, own.loss_mask))


def own_words(model: Model, batch: Batch, n_given: int) -> Batch:
    """The beginnings of a batch's texts with the model's own continuations.

    `n_given` tokens of each text are given, or all of a shorter one, but at most half of n_ctx.
    `labels` are the model's own tokens, and `loss_mask` is True at repetitions. `n_labels` is that
    of `batch`, so that a sum over processes divided by it equals the result of a single process.
    """
    n_given = min(n_given, model.config.n_ctx // 2)
    beginnings = [
        tokens[valid][:n_given].tolist()
        for tokens, valid in zip(batch.rows.tgt, batch.rows.valid("tgt"), strict=True)
    ]
    rows = continued(model, beginnings, min(CONTINUATION, model.config.n_ctx - n_given))
    tokens, valid = padded(rows, model.marks.pad)
    flags = [repeated(row, len(given)) for row, given in zip(rows, beginnings, strict=True)]
    repeats: Bool[Tensor, "batch pos"] = padded(flags)[0].bool()
    counts = batch.loss_mask.any(dim=1, keepdim=True)  # False: a filler row of a process
    device = batch.rows.tgt.device
    labels: Int[Tensor, "batch pos"] = tokens[:, 1:]
    return Batch(
        Rows(tokens[:, :-1], valid[:, :-1]).to(device),
        labels.to(device),
        repeats[:, 1:].to(device) & counts,
        batch.n_labels,
    )


def unlikelihood(
    logits: Float[Tensor, "batch tgt vocab"],
    labels: Int[Tensor, "batch tgt"],
    loss_mask: Bool[Tensor, "batch tgt"],
) -> Float[Tensor, ""]:
    """Sum of -log(1 - p(label)) where `loss_mask` is True: eq. 4 of the paper.

    Probabilities are clamped to 1 - 1e-4, since the loss of 1 would be infinite.
    """
    log_p = logits[loss_mask].log_softmax(-1).gather(-1, labels[loss_mask][:, None])
    return -torch.log1p(-log_p.exp().clamp(max=1 - 1e-4)).sum()
