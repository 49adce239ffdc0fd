"""Bugs in the code around a model: labels, loss, gradients."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from explorer.analysis.bugs import card
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


def _label_view(traced: Trace | None = None) -> card.Demonstration:
    """The decoder's input after writing to its labels, for the user's sequence or a fixed one."""
    pad_id, row = 0, [1, 5, 6, 2, 0, 0]
    columns: tuple[str, ...] = (card.START, "a", "b", card.END, card.PAD)
    own = traced is not None and None not in (traced.marks.pad, traced.marks.end)
    if traced is not None and own:
        pad_id, end = int(traced.marks.pad or 0), int(traced.marks.end or 0)
        n_real = int(traced.tgt_valid.sum())
        row = [*traced.tgt_tokens[:n_real], end, pad_id, pad_id]
        columns = (*traced.tgt_str_tokens[:n_real], card.END, card.PAD)
    bad, _ = shifted_by_views(torch.tensor([row]), pad_id)
    good, _ = shifted_by_copies(torch.tensor([row]), pad_id)
    return card.Demonstration(
        (
            card.Figure(
                "ignored_in_input", float((bad == IGNORED).sum()), float((good == IGNORED).sum())
            ),
            card.Figure("pads_found", float((bad == pad_id).sum()), float((good == pad_id).sum())),
        ),
        bad.double().numpy(),
        good.double().numpy(),
        own=own,
        columns=columns,
    )


def _double_softmax(traced: Trace | None = None) -> card.Demonstration:
    """200 words: a perfect prediction, and the gradient before training."""
    vocab = 200
    labels = torch.tensor([7])
    perfect = torch.full((1, vocab), -1e4).index_fill(1, labels, 1e4)
    figures = [
        _of_losses("perfect_loss", lambda loss: float(loss(perfect, labels))),
        _of_losses("first_gradient", lambda loss: _gradient(loss, vocab, labels)),
    ]
    own = traced is not None and len(written_tokens(traced)) > 0
    if traced is not None and own:
        written = torch.tensor(written_tokens(traced))
        logits = torch.tensor(traced.logits[: len(written)])
        figures.append(_of_losses("own_loss", lambda loss: float(loss(logits, written))))
        chance = math.log(logits.shape[-1])
        figures.append(card.Figure("chance_loss", chance, chance))
    return card.Demonstration(tuple(figures), own=own)


def _of_losses(name: str, measure: Callable[[Loss], float]) -> card.Figure:
    return card.Figure(name, measure(loss_of_probabilities), measure(loss_of_logits))


def _gradient(loss: Loss, vocab: int, labels: Tensor) -> float:
    logits = torch.zeros(1, vocab, requires_grad=True)
    (grad,) = torch.autograd.grad(loss(logits, labels), [logits])
    return float(grad.norm())


def _zero_grad(traced: Trace | None = None) -> card.Demonstration:
    """Five steps on one batch with a learning rate of 0, so that only the accumulation differs."""
    x, y = card.fixed_scores(1, 1, 8, 3)[0, 0], card.fixed_scores(1, 1, 8, 1, seed=1)[0, 0]

    def loss(weight: Tensor) -> Tensor:
        return (x @ weight - y).square().mean()

    bad, good = (
        steps(torch.ones(3, 1, requires_grad=True), loss, 5)
        for steps in (steps_without_zero_grad, steps_with_zero_grad)
    )
    return card.Demonstration(
        tuple(
            card.Figure("gradient_norm", wrong, right, of=str(step))
            for step, (wrong, right) in enumerate(zip(bad, good, strict=True), start=1)
        ),
        np.array([bad]),
        np.array([good]),
        columns=tuple(map(str, range(1, 6))),
    )


TRAINING = (
    card.Pitfall(
        id="label_view",
        group="training",
        wrong=shifted_by_views,
        right=shifted_by_copies,
        demonstrate=_label_view,
    ),
    card.Pitfall(
        id="double_softmax",
        group="training",
        wrong=loss_of_probabilities,
        right=loss_of_logits,
        demonstrate=_double_softmax,
    ),
    card.Pitfall(
        id="no_zero_grad",
        group="training",
        wrong=steps_without_zero_grad,
        right=steps_with_zero_grad,
        demonstrate=_zero_grad,
    ),
)
