"""The loss against torch's own, its gradient included."""

import math

import pytest
import torch

from models.training.loss import sequence_loss

BATCH, N_TGT, VOCAB = 3, 5, 11


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    logits = 3 * torch.randn(BATCH, N_TGT, VOCAB, dtype=torch.float64)
    labels = torch.randint(VOCAB, (BATCH, N_TGT))
    mask = torch.rand(BATCH, N_TGT) < 0.6
    return logits, labels, mask


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_equal_to_torch_forward_and_backward(smoothing: float) -> None:
    logits, labels, mask = inputs()
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss = sequence_loss(ours, labels, mask, smoothing)
    ignored = labels.masked_fill(~mask, -100)
    expected = torch.nn.functional.cross_entropy(
        theirs.flatten(0, 1), ignored.flatten(), label_smoothing=smoothing, reduction="sum"
    )
    torch.testing.assert_close(loss, expected)
    (2 * loss).backward()
    (2 * expected).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_padding_counts_for_nothing() -> None:
    logits, labels, mask = inputs()
    logits.requires_grad_()
    sequence_loss(logits, labels, mask, 0.1).backward()
    assert logits.grad is not None
    assert torch.equal(logits.grad[~mask], torch.zeros_like(logits.grad[~mask]))
    changed = labels.masked_fill(~mask, 0)
    assert sequence_loss(logits, changed, mask) == sequence_loss(logits, labels, mask)


def test_a_model_that_knows_nothing_pays_ln_vocabulary() -> None:
    labels, mask = torch.zeros(2, 3, dtype=torch.long), torch.ones(2, 3, dtype=torch.bool)
    loss = sequence_loss(torch.zeros(2, 3, VOCAB), labels, mask)
    assert float(loss) == pytest.approx(6 * math.log(VOCAB), rel=1e-6)


def test_large_logits_do_not_overflow() -> None:
    labels, mask = torch.zeros(1, 1, dtype=torch.long), torch.ones(1, 1, dtype=torch.bool)
    logits = torch.tensor([[[1e4, -1e4, 0.0]]])
    assert float(sequence_loss(logits, labels, mask)) == 0.0
