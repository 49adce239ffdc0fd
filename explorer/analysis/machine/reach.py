"""How much of the last output's gradient reaches every token: recurrence and attention.

The state of a recurrent net is h_t = tanh(W_x x_t + W_h h_{t-1} + b), so the gradient of the last
state with respect to the token k steps earlier has passed k factors diag(1 - h^2) W_h. Their
product shrinks or grows geometrically with k (Bengio et al. 1994; Pascanu et al. 2013). One layer
of attention reads every token directly, z = sum_j a_j W_V x_j, at any distance.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from explorer.runs.trace import Trace
from explorer.seeding import seeded

Kind = Literal["attention", "recurrent", "orthogonal"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SEEDS = tuple(range(8))
WIDTH = 64
"""The maximum width of the nets, for wider models."""
LEAST = 12
"""The minimum number of tokens; a shorter text is repeated."""


@dataclass(frozen=True, eq=False)
class Reach:
    """Norms of the gradient of one random direction of the last output, for one kind of net.

    `norms` has one row per seed and one column per distance: 0 is the last token itself.
    """

    kind: Kind
    norms: Float[np.ndarray, "seed distance"]

    @property
    def far(self) -> Float[np.ndarray, " seed"]:
        """The gradient at the first token divided by that at the last but one, per seed.

        The last token itself is left out: attention reads it as key, value *and* query.
        """
        return self.norms[:, -1] / self.norms[:, 1]

    @property
    def per_token(self) -> Float[np.ndarray, " seed"]:
        """The factor by which the gradient changes per additional token, per seed: the ratio of the
        best-fitting geometric sequence (least squares of the logarithms) from distance 1.
        """
        tiny = np.finfo(np.float64).tiny  # a gradient that is 0 has no logarithm
        logs = np.log(np.maximum(self.norms[:, 1:], tiny))
        return np.exp(np.polyfit(np.arange(logs.shape[1]), logs.T, 1)[0])


def read_vectors(traced: Trace) -> Float[np.ndarray, "pos d_model"]:
    """The embeddings of a Trace's longer text, without padding, repeated to at least `LEAST`."""
    texts = []
    for stack in traced.stacks:
        real = traced.src_valid if stack.stream == "src" else traced.tgt_valid
        texts.append(traced.activations[stack.hook("embed")][real])
    longest = max(texts, key=len)
    times = -(-LEAST // len(longest))
    return longest if times == 1 else np.tile(longest, (times, 1))[:LEAST]


def reaches(x: Float[np.ndarray, "pos d_in"]) -> tuple[Reach, ...]:
    """Every kind of net reading the same vectors, newly built for each seed. Raises ValueError for
    fewer than three vectors.

    Each vector is first scaled to mean 0 and variance 1, as by a LayerNorm, so that the scale of
    a model's embeddings has no effect.
    """
    if len(x) < 3:
        raise ValueError(f"{len(x)} vectors: at least 3 are needed for a factor between distances")
    given = nn.functional.layer_norm(torch.tensor(x, dtype=torch.float64), x.shape[1:])
    width = min(x.shape[1], WIDTH)
    return tuple(
        Reach(kind, np.stack([_norms(kind, given, width, seed) for seed in SEEDS]))
        for kind in KINDS
    )


def _norms(
    kind: Kind, x: Float[Tensor, "pos d_in"], width: int, seed: int
) -> Float[np.ndarray, " distance"]:
    with seeded(seed):
        last = NETS[kind](x.shape[1], width)
        direction = torch.randn(width, dtype=x.dtype)
    return gradient_norms(last, x, direction / direction.norm())


def gradient_norms(
    last: Callable[[Tensor], Tensor],
    x: Float[Tensor, "pos d_in"],
    direction: Float[Tensor, " width"],
) -> Float[np.ndarray, " distance"]:
    """|d(direction . last(x)) / d x_j| for every token j, the last token first."""
    x = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(last(x) @ direction, [x])
    return grad.norm(dim=-1).flip(0).numpy()


def recurrent(d_in: int, width: int) -> Callable[[Tensor], Tensor]:
    """torch's `nn.RNN` (tanh) at initialisation, every number uniform in +-1 / sqrt(width); returns
    the last state.
    """
    net = nn.RNN(d_in, width, batch_first=True).double()
    return lambda x: net(x[None])[0][0, -1]


def orthogonal(d_in: int, width: int) -> Callable[[Tensor], Tensor]:
    """The same net with an orthogonal W_h, which preserves norms: only tanh shrinks the state."""
    net = nn.RNN(d_in, width, batch_first=True).double()
    nn.init.orthogonal_(net.get_parameter("weight_hh_l0"))
    return lambda x: net(x[None])[0][0, -1]


def attention(d_in: int, width: int) -> Callable[[Tensor], Tensor]:
    """One head without positions, its matrices initialised as by `nn.Linear`; returns the last row,
    which sees all tokens.
    """
    w_q, w_k, w_v = (nn.Linear(d_in, width).double() for _ in range(3))

    def last(x: Tensor) -> Tensor:
        """The last row of softmax(q k^T / sqrt(width)) v."""
        scores = w_q(x[-1]) @ w_k(x).T / math.sqrt(width)
        return scores.softmax(-1) @ w_v(x)

    return last


NETS: dict[Kind, Callable[[int, int], Callable[[Tensor], Tensor]]] = {
    "attention": attention,
    "recurrent": recurrent,
    "orthogonal": orthogonal,
}
