"""How much of the last output's gradient reaches every token: recurrence and attention.

The state of a recurrent net is h_t = tanh(W_x x_t + W_h h_{t-1} + b), so the gradient of the last
state with respect to the token k steps earlier has passed k factors diag(1 - h^2) W_h. Their
product shrinks or grows geometrically with k (Bengio et al. 1994; Pascanu et al. 2013). One layer
of attention reads every token directly, z = sum_j a_j W_V x_j, at any distance.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from explorer.analysis.model.cost import ways
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.model.choices import ASIDES, ModelChoices
from explorer.exhibits.picking import pick_aside
from explorer.exhibits.saying import in_a_row
from explorer.figures.curves import lines
from explorer.numbers import fixed, number
from explorer.runs.passes import seeded
from explorer.runs.trace import Trace

Kind = Literal["attention", "recurrent", "orthogonal"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SEEDS = tuple(range(8))
WIDTH = 64
"""The maximum width of the nets, for wider models."""
LEAST = 12
"""The minimum number of tokens; a shorter text is repeated."""
LONG = 1000
"""Length in tokens of the long text in the comparison of architectures."""


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
        best-fitting geometric sequence (least squares of the logarithms) from distance 1."""
        tiny = np.finfo(np.float64).tiny  # a gradient that is 0 has no logarithm
        logs = np.log(np.maximum(self.norms[:, 1:], tiny))
        return np.exp(np.polyfit(np.arange(logs.shape[1]), logs.T, 1)[0])


def read_vectors(traced: Trace) -> Float[np.ndarray, "pos d_model"]:
    """The embeddings of a Trace's longer text, without padding, repeated to at least `LEAST`."""
    valid = {"src": traced.src_valid, "tgt": traced.tgt_valid}
    texts = [traced.activations[s.hook("embed")][valid[s.stream]] for s in traced.stacks]
    longest = max(texts, key=len)
    return np.resize(longest, (max(len(longest), LEAST), longest.shape[1]))


def reaches(x: Float[np.ndarray, "pos d_in"]) -> tuple[Reach, ...]:
    """Every kind of net reading the same vectors, newly built for each seed. Raises ValueError for
    fewer than three vectors.

    Each vector is first scaled to mean 0 and variance 1, as by a LayerNorm, so that the scale of
    a model's embeddings has no effect.
    """
    if len(x) < 3:
        raise ValueError(f"{len(x)} vectors: at least 3 are needed for a factor between distances")
    vectors = nn.functional.layer_norm(torch.tensor(x, dtype=torch.float64), x.shape[1:])
    width = min(x.shape[1], WIDTH)

    def norms(kind: Kind, seed: int) -> Float[np.ndarray, " distance"]:
        with seeded(seed):
            last = NETS[kind](x.shape[1], width)
            direction = torch.randn(width, dtype=vectors.dtype)
        return gradient_norms(last, vectors, direction / direction.norm())

    return tuple(Reach(kind, np.stack([norms(kind, seed) for seed in SEEDS])) for kind in KINDS)


def gradient_norms(
    last: Callable[[Tensor], Tensor],
    x: Float[Tensor, "pos d_in"],
    direction: Float[Tensor, " width"],
) -> Float[np.ndarray, " distance"]:
    """|d(direction . last(x)) / d x_j| for every token j, the last token first."""
    x = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(last(x) @ direction, [x])
    return grad.norm(dim=-1).flip(0).numpy()


def recurrent(d_in: int, width: int, orthogonal: bool = False) -> Callable[[Tensor], Tensor]:
    """torch's `nn.RNN` (tanh) at initialisation, every number uniform in +-1 / sqrt(width); returns
    the last state. An `orthogonal` W_h preserves norms: only tanh shrinks the state."""
    net = nn.RNN(d_in, width, batch_first=True).double()
    if orthogonal:
        nn.init.orthogonal_(net.get_parameter("weight_hh_l0"))
    return lambda x: net(x[None])[0][0, -1]


def attention(d_in: int, width: int) -> Callable[[Tensor], Tensor]:
    """One head without positions, its matrices initialised as by `nn.Linear`; returns the last row,
    which sees all tokens."""
    w_q, w_k, w_v = (nn.Linear(d_in, width).double() for _ in range(3))
    return lambda x: (w_q(x[-1]) @ w_k(x).T / math.sqrt(width)).softmax(-1) @ w_v(x)


NETS: dict[Kind, Callable[[int, int], Callable[[Tensor], Tensor]]] = {
    "attention": attention,
    "recurrent": recurrent,
    "orthogonal": partial(recurrent, orthogonal=True),
}


def compute(trace: Trace) -> tuple[Reach, ...]:
    """The gradient at every token of the longer text of a run, by distance."""
    return reaches(read_vectors(trace))


def show(nets: tuple[Reach, ...], view: View) -> b.Blocks:
    """Path lengths, the curves, the factor per token of every network, and the conclusion; below
    them the menu of asides about the model."""
    names = [view.t(f"reach.nets.{net.kind}") for net in nets]
    medians = np.stack([np.median(net.norms, 0) for net in nets])
    factors = [
        (name, _range(net.per_token), _range(net.far))
        for name, net in zip(names, nets, strict=True)
    ]
    blocks: list[b.Block] = [
        b.Prose(view.t("model.ways_lead")),
        _ways(view),
        b.Title(view.t("reach.title")),
        b.Prose(_lead(view, nets)),
        b.Chart("model.reach", partial(_curves, view, medians, names), view.t("reach.title")),
        b.Table(("", view.t("reach.per_token"), view.t("reach.far")), factors),
        _conclusion(view, {net.kind: net for net in nets}),
    ]
    yield b.Fold(view.t("model.ways"), blocks, inline=True)
    formula = (
        r"h_t = \tanh(W_x x_t + W_h h_{t-1} + b), \qquad "
        r"D_t = \mathrm{diag}(1 - h_t^2)",
        r"\frac{\partial h_n}{\partial x_{n-k}} = "
        r"D_n W_h\, D_{n-1} W_h \cdots D_{n-k+1} W_h\, D_{n-k} W_x",
        r"z_n = \sum_j A_{nj} W_V x_j, \qquad "
        r"\frac{\partial z_n}{\partial x_j} = A_{nj}\left(W_V + "
        r"\frac{(v_j - z_n)\,q_n^{\top} W_K}{\sqrt{d}}\right), \quad j < n",
    )
    yield b.Formula(formula, view.t("reach.formula"))
    yield b.Code((reaches, read_vectors))
    yield b.Numbers(
        lambda: {
            view.t("reach.distance"): [*range(medians.shape[1])],
            **{
                name: [f"{value:.3g}" for value in norms]
                for name, norms in zip(names, medians, strict=True)
            },
        }
    )
    aside = view.choices(ModelChoices).further
    yield from pick_aside(view, "model.further", "model.further", ASIDES, aside)


def _ways(view: View) -> b.Table:
    """Path lengths of recurrent and convolutional networks for the same words."""
    own = max(len(view.trace.src_tokens), len(view.trace.tgt_tokens))
    heads = view.t("model.ways_head"), view.t("model.path")
    rows = [
        (
            view.t(f"model.ways_{here.kind}"),
            *(f"{n:,}" for n in (here.steps, here.path, there.steps, there.path)),
        )
        for here, there in zip(ways(own), ways(LONG), strict=True)
    ]
    return b.Table(("", *(f"{head}: {n:,}" for n in (own, LONG) for head in heads)), rows)


def _lead(view: View, nets: tuple[Reach, ...]) -> str:
    width, n_tokens = min(view.loaded.config.d_model, WIDTH), nets[0].norms.shape[1]
    words = [view.t("reach.lead", width=width, seeds=len(SEEDS), n=n_tokens)]
    if max(int(view.trace.src_valid.sum()), int(view.trace.tgt_valid.sum())) < LEAST:
        words.append(view.t("reach.repeated", least=LEAST))
    return in_a_row(words)


def _curves(view: View, ys: np.ndarray, names: list[str], *, dark: bool) -> b.Figure:
    axes = view.axes("reach.distance", "reach.gradient")
    figure = lines(np.arange(ys.shape[1]), ys, names, **axes, log_y=True, height=300, dark=dark)
    figure["layout"]["yaxis"] |= {"exponentformat": "power", "nticks": 6}
    return figure


def _median(values: np.ndarray, of: Callable[..., Any] = np.median) -> str:
    value = float(of(values))
    return fixed(value) if value >= 0.01 else number(value)


def _range(values: np.ndarray) -> str:
    return f"**{_median(values)}** ({_median(values, np.min)} – {_median(values, np.max)})"


def _conclusion(view: View, by_kind: dict[Kind, Reach]) -> b.Sentence:
    """The gradients at the first token, relative to the last but one."""
    recurrent, attention = by_kind["recurrent"], by_kind["attention"]
    values = {"far": _median(recurrent.far), "attention": _median(attention.far)}
    distance = recurrent.norms.shape[1] - 1
    return b.Sentence("reach", view.t("reach.reading", distance=distance, **values))


EXHIBIT = Exhibit(compute, show)
