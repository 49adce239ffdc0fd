"""Masked language modelling: predict masked words from the words on both sides.

Devlin et al. 2018, BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding, arXiv 1810.04805, §3.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from models.marks import Marks
from models.rows import Rows
from models.training.data import Example, batches
from models.training.loss import sequence_loss
from models.transformer import Model

CHOSEN = 0.15  # share of a text's words to predict, at least one
MASKED, RANDOM = 0.8, 0.1  # shares of the chosen words replaced by [MASK] or a random token


@dataclass(frozen=True)
class MaskedScore:
    """Means over the chosen words: loss in nats and top-1 accuracy."""

    loss: float
    accuracy: float
    n_words: int


@torch.no_grad()
def fill_in(model: Model, examples: Sequence[Example], max_tokens: int) -> MaskedScore:
    """Loss and accuracy on masked words of `examples`, masked as in training with a fixed seed."""
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    draw = torch.Generator().manual_seed(0)
    total, n_right, n_chosen = 0.0, 0, 0
    for batch in batches(examples, model, max_tokens, seed=0, epoch=0):
        rows, chosen = with_words_masked(
            batch.rows, batch.loss_mask, model.marks, model.config.vocab_size, draw
        )
        logits = model.read(rows.to(device))
        labels, chosen = batch.labels.to(device), chosen.to(device)
        total += float(sequence_loss(logits, labels, chosen))
        n_right += int(((logits.argmax(-1) == labels) & chosen).sum())
        n_chosen += int(chosen.sum())
    model.train(was_training)
    return MaskedScore(total / max(1, n_chosen), n_right / max(1, n_chosen), n_chosen)


def with_words_masked(
    rows: Rows,
    words: Bool[Tensor, "batch tgt"],
    marks: Marks,
    vocab_size: int,
    draw: torch.Generator | None = None,
) -> tuple[Rows, Bool[Tensor, "batch tgt"]]:
    """The model's input with words masked, and the positions to predict.

    In each row, 15 % of the positions at which `words` is True are chosen, at least one. 80 % of
    these become the mask token, 10 % a random ordinary token, and 10 % are unchanged. Random
    numbers are drawn on the CPU, from torch's global generator unless `draw` is given.
    """
    device = words.device
    n_chosen = (CHOSEN * words.sum(1)).round().clamp(min=1)
    order = torch.rand(words.shape, generator=draw).to(device).masked_fill(~words, 2.0)
    chosen = (order.argsort(dim=1).argsort(dim=1) < n_chosen[:, None]) & words
    kind = torch.rand(words.shape, generator=draw).to(device)
    plain = torch.tensor([token for token in range(vocab_size) if token not in marks])
    drawn = plain[torch.randint(len(plain), words.shape, generator=draw)].to(device)
    assert marks.mask is not None
    tokens = rows.tgt.masked_fill(chosen & (kind < MASKED), marks.mask)
    tokens = torch.where(chosen & (kind >= MASKED) & (kind < MASKED + RANDOM), drawn, tokens)
    return Rows(tokens, rows.tgt_valid), chosen
