"""LayerNorm, RMSNorm and BatchNorm on one padded batch: statistics, dependence, eps, gradients.

All three are used without weight and bias, so that they differ only in what they subtract and
divide by. BatchNorm is included for comparison; no model of this project uses it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from explorer.analysis.positions.changes import stack_module
from explorer.analysis.positions.order import reading_stream
from explorer.library import LoadedModel
from explorer.runs.inputs import given_tokens
from models.foreign.placing import outside
from models.norms import RMSNorm
from models.rows import as_tokens, padded


def layer_norm_forward(
    x: Float[Tensor, "*rest d_model"],
    weight: Float[Tensor, " d_model"],
    bias: Float[Tensor, " d_model"],
    eps: float,
) -> Float[Tensor, "*rest d_model"]:
    """LayerNorm step by step, following the formula in `models.norms`."""
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.pow(2).mean(-1, keepdim=True)  # biased: divided by d_model
    return weight * (centred / torch.sqrt(variance + eps)) + bias


def rms_norm_forward(
    x: Float[Tensor, "*rest d_model"], weight: Float[Tensor, " d_model"], eps: float
) -> Float[Tensor, "*rest d_model"]:
    """RMSNorm step by step, following the formula in `models.norms`."""
    return weight * (x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps))


def layer_norm_backward(
    x: Float[Tensor, "*rest d_model"],
    weight: Float[Tensor, " d_model"],
    eps: float,
    grad_out: Float[Tensor, "*rest d_model"],
) -> tuple[Float[Tensor, "*rest d_model"], Float[Tensor, " d_model"], Float[Tensor, " d_model"]]:
    """The gradients (dx, dweight, dbias) of LayerNorm, given the gradient of its output.

    With std = sqrt(var + eps), n = (x - mean) / std and g = grad_out * weight,
        dx = (g - mean(g) - n * mean(g * n)) / std,
    so the weight multiplies *before* the Jacobian of the normalisation; applying it afterwards
    is right only while all weights are equal, as they are at initialisation.
    """
    std = torch.sqrt(x.var(-1, keepdim=True, correction=0) + eps)
    n = (x - x.mean(-1, keepdim=True)) / std
    g = grad_out * weight
    dx = (g - g.mean(-1, keepdim=True) - n * (g * n).mean(-1, keepdim=True)) / std
    d_model = x.shape[-1]
    dweight = (grad_out * n).reshape(-1, d_model).sum(0)
    dbias = grad_out.reshape(-1, d_model).sum(0)
    return dx, dweight, dbias


def rms_norm_backward(
    x: Float[Tensor, "*rest d_model"],
    weight: Float[Tensor, " d_model"],
    eps: float,
    grad_out: Float[Tensor, "*rest d_model"],
) -> tuple[Float[Tensor, "*rest d_model"], Float[Tensor, " d_model"]]:
    """The gradients (dx, dweight) of RMSNorm: LayerNorm's without the mean terms."""
    rms = torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    n = x / rms
    g = grad_out * weight
    dx = (g - n * (g * n).mean(-1, keepdim=True)) / rms
    return dx, (grad_out * n).reshape(-1, x.shape[-1]).sum(0)


Norm = Literal["layernorm", "rmsnorm", "batchnorm"]


NORMS: tuple[Norm, ...] = get_args(Norm)


EPS = 1e-5


BACKWARD: dict[str, Callable[..., tuple[Tensor, ...]]] = {
    "layernorm": layer_norm_backward,
    "rmsnorm": rms_norm_backward,
}
"""The backward passes derived by hand."""


@dataclass(frozen=True, eq=False)
class PaddedSentences:
    """Sentences padded to one length, as input of a model's first block: x [sentence, pos, d].

    Padding is embedded like any other token here; `valid` is False at padding.
    """

    x: Float[np.ndarray, "sentence pos d_model"]
    valid: Bool[np.ndarray, "sentence pos"]
    tokens: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class Statistics:
    """What a norm subtracts and divides by: [sentence, pos] per token, or [d_model] per feature.

    RMSNorm subtracts nothing: its `mean` is 0.
    """

    mean: Float[np.ndarray, "..."]
    scale: Float[np.ndarray, "..."]


def batch_of(loaded: LoadedModel, sentences: Sequence[str]) -> PaddedSentences:
    """The sentences as one padded batch: scaled embeddings with positions, [sentence, pos, d].

    Raises InputProblem for a sentence that cannot be read; ValueError for no sentence.
    """
    rows, stream = (
        [given_tokens(loaded, sentence) for sentence in sentences],
        reading_stream(loaded),
    )
    stack = stack_module(loaded, stream)
    if not rows or stack is None:
        raise ValueError("a batch needs at least one sentence")
    ids, valid = padded(rows, loaded.marks.of(stream).pad)
    with torch.inference_mode():
        device = next(stack.parameters()).device
        x = outside(stack.embed(ids.to(device))) * stack.embed_scale
        added = stack.added(ids.to(device), stack.places(valid, ids).to(device))
        x = x if added is None else x + outside(added)
    shown = tuple(tuple(loaded.str_tokens(as_tokens(row), stream)) for row in ids.tolist())
    return PaddedSentences(x.double().numpy(), valid.numpy(), shown)


def statistics(x: Float[np.ndarray, "sentence pos d_model"], norm: Norm) -> Statistics:
    """A norm's statistics for a batch, without eps: biased deviation or root mean square."""
    if norm == "batchnorm":
        return Statistics(x.mean((0, 1)), x.std((0, 1)))
    if norm == "rmsnorm":
        rms = np.sqrt((x**2).mean(-1))
        return Statistics(np.zeros_like(rms), rms)
    return Statistics(x.mean(-1), x.std(-1))


def normalised(
    x: Float[np.ndarray, "sentence pos d_model"], norm: Norm, eps: float = EPS
) -> Float[np.ndarray, "sentence pos d_model"]:
    """The normalized batch: by one of the library's norms, or by BatchNorm in training mode."""
    if norm == "batchnorm":
        stats = statistics(x, norm)
        return (x - stats.mean) / np.sqrt(stats.scale**2 + eps)
    wide = torch.from_numpy(x)
    if norm == "rmsnorm":
        with torch.inference_mode():
            return RMSNorm(x.shape[-1], eps).double()(wide).numpy()
    ones, zeros = torch.ones(x.shape[-1]).double(), torch.zeros(x.shape[-1]).double()
    return layer_norm_forward(wide, ones, zeros, eps).numpy()


@dataclass(frozen=True, eq=False)
class Backward:
    """The backward pass of a norm: the gradient of its input, computed in three ways.

    `by_hand` is the library's formula, `autograd` differentiates the forward pass, and `wrong`
    multiplies by gamma after the Jacobian instead of before. All [feature], float64. RMSNorm has no
    beta: `d_beta` is None.
    """

    out: Float[np.ndarray, " feature"]
    by_hand: Float[np.ndarray, " feature"]
    autograd: Float[np.ndarray, " feature"]
    wrong: Float[np.ndarray, " feature"]
    d_gamma: Float[np.ndarray, " feature"]
    d_beta: Float[np.ndarray, " feature"] | None

    @property
    def error(self) -> float:
        """The largest difference between the formula and autograd."""
        return float(np.abs(self.by_hand - self.autograd).max())

    @property
    def wrong_error(self) -> float:
        return float(np.abs(self.wrong - self.autograd).max())


def backward(
    x: Float[np.ndarray, " feature"],
    gamma: Float[np.ndarray, " feature"],
    grad_out: Float[np.ndarray, " feature"],
    norm: str,
) -> Backward:
    """The gradients of norm(x) * gamma (beta 0), given the gradient of its output."""

    def wide(values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.asarray(values, np.float64))

    leaf = wide(x).requires_grad_()
    weight, upstream = wide(gamma), wide(grad_out)
    with torch.enable_grad():
        out = (
            rms_norm_forward(leaf, weight, EPS)
            if norm == "rmsnorm"
            else layer_norm_forward(leaf, weight, torch.zeros_like(weight), EPS)
        )
        (automatic,) = torch.autograd.grad(out, leaf, upstream)
    by_hand_of = BACKWARD[norm]
    by_hand, d_gamma, *d_beta = by_hand_of(wide(x), weight, EPS, upstream)
    late, *_ = by_hand_of(wide(x), torch.ones_like(weight), EPS, upstream)
    return Backward(
        out=out.detach().numpy(),
        by_hand=by_hand.numpy(),
        autograd=automatic.numpy(),
        wrong=(late * weight).numpy(),
        d_gamma=d_gamma.numpy(),
        d_beta=d_beta[0].numpy() if d_beta else None,
    )
