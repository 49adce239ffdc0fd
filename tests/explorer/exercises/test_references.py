"""The cases of the exercises: references against torch."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from explorer.analysis.exercises.grading import grade
from explorer.analysis.exercises.tasks import task_of
from models.positions import rotate, sinusoidal_table

Numbers = Sequence[float]


def row(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def weights(scores: Numbers, allowed: Sequence[bool]) -> Any:
    hidden = row(scores).masked_fill(~torch.tensor(allowed), -math.inf)
    return hidden.softmax(-1).nan_to_num(0.0)


def gradient(function: Callable[..., Any], at: Numbers, upstream: Numbers) -> Any:
    x = row(at).requires_grad_()
    return torch.autograd.grad(function(x), x, row(upstream))[0]


def nucleus(probs: Numbers, p: float) -> Any:
    values, order = row(probs).sort(descending=True, stable=True)
    kept = values.masked_fill(values.cumsum(0) - values >= p, 0.0)
    return torch.zeros_like(kept).scatter(0, order, kept / kept.sum())


def beams(scores: Numbers, logprobs: Sequence[Numbers], width: int) -> Any:
    best = (row(scores)[:, None] + row(logprobs)).flatten().topk(width).indices
    return torch.stack((best // len(logprobs[0]), best % len(logprobs[0])), 1)


def norm(x: Numbers, eps: float, gain: Any = None, bias: Any = None) -> Any:
    return F.layer_norm(row(x), [len(x)], gain, bias, eps)


def rms(x: Any, gain: Numbers, eps: float) -> Any:
    return F.rms_norm(x, [len(gain)], row(gain), eps)


def turned(x: float, y: float, pos: int, theta: float) -> Any:
    angle = torch.tensor(pos * theta, dtype=torch.float64)
    return rotate(row([x, y])[None, None, None], (angle.cos().view(1), angle.sin().view(1)))


TORCH: dict[str, Callable[..., Any]] = {
    "softmax": lambda scores: row(scores).softmax(-1),
    "empty_row": weights,
    "mend_after": weights,
    "mend_zero": weights,
    "scale": lambda q, k: F.linear(row(q), row(k)) / len(q) ** 0.5,
    "mend_scale": lambda q, k, n_heads: F.linear(row(q), row(k)) / len(q) ** 0.5,
    "mix": lambda weights, values: row(weights) @ row(values),
    "sine": lambda pos, dim, d_model: sinusoidal_table(pos + 1, d_model)[pos, dim],
    "rotation": turned,
    "layer_norm": lambda x, gain, bias, eps: norm(x, eps, row(gain), row(bias)),
    "mend_variance": norm,
    "rms_norm": lambda x, gain, eps: rms(row(x), gain, eps),
    "rms_gradient": lambda x, gain, eps, upstream: gradient(
        lambda given: rms(given, gain, eps), x, upstream
    ),
    "softmax_gradient": lambda weights, upstream: gradient(
        lambda scores: scores.softmax(-1), row(weights).log().tolist(), upstream
    ),
    "ignored": lambda losses, labels, ignore: row(
        [loss for loss, label in zip(losses, labels, strict=True) if label != ignore] or [0.0]
    ).mean(),
    "smoothing": lambda label, vocab_size, amount: (
        (1 - amount) * F.one_hot(torch.tensor(label), vocab_size) + amount / vocab_size
    ),
    "top_p": nucleus,
    "beam": beams,
    "mend_positions": lambda valid: (torch.tensor(valid).cumsum(0) - 1).clamp(min=0),
    "mend_loss": lambda logits, label: F.cross_entropy(row(logits), torch.tensor(label)),
}


@pytest.mark.parametrize("name", TORCH)
def test_a_reference_gives_what_torch_gives_in_every_case(name):
    task = task_of(name)
    for case, (wanted,) in zip(task.cases, grade(task, task.reference).wanted, strict=True):
        found = torch.as_tensor(TORCH[name](**case.given)).double().flatten()
        torch.testing.assert_close(found, row(wanted).flatten(), atol=1e-6, rtol=1e-6)
