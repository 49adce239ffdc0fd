"""Bugs in the code around a model: labels, loss, gradients."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from explorer.analysis.cases.case import Case, Measured
from explorer.analysis.cases.planting import END, PAD, START, fixed_table
from explorer.runs.rerun import written_tokens
from explorer.runs.trace import Trace

IGNORED = -100
Loss = Callable[[Tensor, Tensor], Tensor]


def shifted_by_views(tokens: Tensor, pad_id: int) -> tuple[Tensor, Tensor]:
    """Two views of one tensor: writing to the labels also changes the inputs."""
    inputs, labels = tokens[:, :-1], tokens[:, 1:]
    labels[labels == pad_id] = IGNORED
    return inputs, labels


def shifted_by_copies(tokens: Tensor, pad_id: int) -> tuple[Tensor, Tensor]:
    """Inputs and labels, shifted by one; `where` copies, so the tokens stay unchanged."""
    inputs, labels = tokens[:, :-1], tokens[:, 1:]
    labels = torch.where(labels == pad_id, IGNORED, labels)
    return inputs, labels


def loss_of_probabilities(logits: Tensor, labels: Tensor) -> Tensor:
    """`cross_entropy` includes a softmax, so this one is applied twice."""
    probs = logits.softmax(-1)
    return nn.functional.cross_entropy(probs, labels)


def loss_of_logits(logits: Tensor, labels: Tensor) -> Tensor:
    """Logits are passed unchanged."""
    return nn.functional.cross_entropy(logits, labels)


def steps_without_zero_grad(
    weight: Tensor, loss: Callable[[Tensor], Tensor], n: int
) -> list[float]:
    """backward() adds to the existing gradient."""
    norms: list[float] = []
    for _ in range(n):
        torch.autograd.backward([loss(weight)])
        assert weight.grad is not None
        norms.append(float(weight.grad.norm()))
    return norms


def steps_with_zero_grad(weight: Tensor, loss: Callable[[Tensor], Tensor], n: int) -> list[float]:
    """The effect of an optimizer's zero_grad() before every backward()."""
    norms: list[float] = []
    for _ in range(n):
        weight.grad = None
        torch.autograd.backward([loss(weight)])
        assert weight.grad is not None
        norms.append(float(weight.grad.norm()))
    return norms


def _label_view(way: Callable[..., tuple[Tensor, Tensor]], traced: Trace | None = None) -> Measured:
    """The decoder's input after writing to its labels, for the user's sequence or a fixed one."""
    pad_id, row = 0, [1, 5, 6, 2, 0, 0]
    labels: tuple[str, ...] = (START, "a", "b", END, PAD)
    own = traced is not None and None not in (traced.marks.pad, traced.marks.end)
    if traced is not None and own:
        pad_id, end = int(traced.marks.pad or 0), int(traced.marks.end or 0)
        n_real = int(traced.tgt_valid.sum())
        row = [*traced.tgt_tokens[:n_real], end, pad_id, pad_id]
        labels = (*traced.tgt_str_tokens[:n_real], END, PAD)
    inputs, _ = way(torch.tensor([row]), pad_id)
    counts = {"ignored_in_input": IGNORED, "pads_found": pad_id}
    numbers = {name: (inputs == token).sum() for name, token in counts.items()}
    return Measured(numbers, inputs.double(), own, labels=labels)


def _double_softmax(way: Loss, traced: Trace | None = None) -> Measured:
    """200 words: a perfect prediction, and the gradient before training."""
    vocab, labels = 200, torch.tensor([7])
    perfect = torch.full((1, vocab), -1e4).index_fill(1, labels, 1e4)
    numbers: dict[Any, float | Tensor] = {
        "perfect_loss": way(perfect, labels),
        "first_gradient": _gradient(way, vocab, labels),
    }
    own = traced is not None and len(written_tokens(traced)) > 0
    if traced is not None and own:
        written = torch.tensor(written_tokens(traced))
        logits = torch.tensor(traced.logits[: len(written)])
        numbers["own_loss"] = way(logits, written)
        numbers["chance_loss"] = math.log(logits.shape[-1])
    return Measured(numbers, own=own)


def _gradient(loss: Loss, vocab: int, labels: Tensor) -> float:
    logits = torch.zeros(1, vocab, requires_grad=True)
    (grad,) = torch.autograd.grad(loss(logits, labels), [logits])
    return float(grad.norm())


def _zero_grad(way: Callable[..., list[float]], traced: Trace | None = None) -> Measured:
    """Five steps on one batch with a learning rate of 0, so that only the accumulation differs."""
    x, y = fixed_table(8, 3), fixed_table(8, 1, seed=1)

    def loss(weight: Tensor) -> Tensor:
        return (x @ weight - y).square().mean()

    norms = way(torch.ones(3, 1, requires_grad=True), loss, 5)
    numbers = {("gradient_norm", str(step)): norm for step, norm in enumerate(norms, start=1)}
    return Measured(
        numbers, torch.tensor([norms], dtype=torch.float64), labels=tuple(map(str, range(1, 6)))
    )


TRAINING = (
    Case("label_view", "training", _label_view, shifted_by_views, shifted_by_copies),
    Case("double_softmax", "training", _double_softmax, loss_of_probabilities, loss_of_logits),
    Case("no_zero_grad", "training", _zero_grad, steps_without_zero_grad, steps_with_zero_grad),
)
