"""Unlikelihood: what a language model repeats in its own greedy continuations counts against it.

Welleck et al. 2020, Neural Text Generation with Unlikelihood Training, arXiv 1908.04319. Trained by
likelihood alone, a model gives its own repetitions too much probability, and a text continued
greedily falls into a loop (`models/training/repetition.py` measures how much).
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
    """Continue the beginnings of the batch's texts and lower what is repeated there (§5.2)."""

    name: ClassVar[str] = "unlikelihood"

    def loss(self, batch: Batch, training: Training) -> Loss:
        """How much of each text is given changes with the step; all processes give the same."""
        n_given = 8 + training.step % 41  # 8 to 48, the start mark included
        own = own_words(training.model, batch, n_given)
        logits = training.logits(own.rows)
        return Loss(self.weight * unlikelihood(logits, own.labels, own.loss_mask))


def own_words(model: Model, batch: Batch, n_given: int) -> Batch:
    """The beginnings of a batch's texts as the model itself continues them.

    `n_given` tokens of each text are given, or all of a shorter one, but at most half of what the
    model reads. `labels` are the model's own words, and `loss_mask` is True at those that repeat.
    `n_labels` stays that of `batch`, so that a sum over several processes, divided by it, is what
    one process would have computed.
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
    counts = batch.loss_mask.any(dim=1, keepdim=True)  # False: a row that only fills a share
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

    A probability of 1 would cost infinitely much; it is taken as 1 - 1e-4.
    """
    log_p = logits[loss_mask].log_softmax(-1).gather(-1, labels[loss_mask][:, None])
    return -torch.log1p(-log_p.exp().clamp(max=1 - 1e-4)).sum()
