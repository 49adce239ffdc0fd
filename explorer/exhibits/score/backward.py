"""The backward pass of one head, derived by hand: from the gradient of z to those of v, q and k."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from explorer.analysis.score.steps import bias_of, gradient_at
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.saying import quoted, site_axes
from explorer.exhibits.score.choices import GRADIENTS, Gradient, ScoreChoices
from explorer.exhibits.score.place import goal_of, is_open, key_of
from explorer.figures.matrix import Axis, signed
from explorer.library import LoadedModel
from explorer.numbers import digits, number
from explorer.runs.rerun import require_same_model
from explorer.runs.trace import Trace
from models.attention import capped
from models.hooks import AttentionSite

NAMES: dict[Gradient, str] = {"v": "dV", "pattern": "dA", "scores": "dS", "q": "dQ", "k": "dK"}
MADE: dict[Gradient, str] = {
    "v": "Aᵀ dZ",
    "pattern": "dZ Vᵀ",
    "scores": "A ∘ (dA − Σ A ∘ dA)",
    "q": "dS K ÷ {divisor}",
    "k": "dSᵀ Q ÷ {divisor}",
}
"""The formulas of the gradients, the same in both languages."""
CAPPED: dict[Gradient, str] = {
    "q": "(dS ∘ (1 − tanh²)) K ÷ {divisor}",
    "k": "(dS ∘ (1 − tanh²))ᵀ Q ÷ {divisor}",
}
"""The formulas with a softcap, cap · tanh(score / cap)."""
TILE = 4
"""Keys per tile in the fused passes; a real kernel takes as many as fit into fast memory."""


class HeadInputs(NamedTuple):
    """One head: its scores are q k^T, divided, capped if there is a cap, plus a bias."""

    q: Float[Tensor, "query d_head"]
    k: Float[Tensor, "key d_head"]
    v: Float[Tensor, "key d_head"]
    mask: Bool[Tensor, "query key"]
    bias: Float[Tensor, "query key"]
    divisor: float
    cap: float | None = None

    def scores(self) -> Float[Tensor, "query key"]:
        """The scores before the mask."""
        return capped(self.q @ self.k.T / self.divisor, self.cap) + self.bias

    def slope(self) -> Float[Tensor, "query key"] | float:
        """d score / d (q . k): 1 / divisor, times 1 - tanh^2 under a cap."""
        if self.cap is None:
            return 1 / self.divisor
        return (1 - ((self.scores() - self.bias) / self.cap) ** 2) / self.divisor

    def pattern(self, scores: Float[Tensor, "query key"]) -> Float[Tensor, "query key"]:
        """The softmax of the scores under the mask."""
        lowest = torch.finfo(scores.dtype).min
        return scores.masked_fill(~self.mask, lowest).softmax(-1).masked_fill(~self.mask, 0.0)

    def tiles(self) -> "Iterator[tuple[slice, HeadInputs]]":
        """`TILE` keys at a time, and the head with only these keys."""
        for first in range(0, len(self.k), TILE):
            at = slice(first, first + TILE)
            mask, bias = self.mask[:, at], self.bias[:, at]
            yield at, self._replace(k=self.k[at], v=self.v[at], mask=mask, bias=bias)


def attention_backward(
    head: HeadInputs, pattern: Float[Tensor, "query key"], grad_z: Float[Tensor, "query d_head"]
) -> dict[Gradient, Tensor]:
    """The gradients of v, pattern, scores, q and k, given the gradient of z = pattern v.

    The pattern is the softmax of the scores under a mask: at a masked cell it is 0, and so is the
    gradient of the score.
    """
    grad_pattern = grad_z @ head.v.T
    # Softmax backward: subtract each row's weighted mean.
    mean = (pattern * grad_pattern).sum(-1, keepdim=True)
    grad_scores = pattern * (grad_pattern - mean)
    grad_dots = grad_scores * head.slope()
    return {
        "v": pattern.T @ grad_z,
        "pattern": grad_pattern,
        "scores": grad_scores,
        "q": grad_dots @ head.k,
        "k": grad_dots.T @ head.q,
    }


def fused_forward(
    head: HeadInputs,
) -> tuple[Float[Tensor, "query d_head"], Float[Tensor, " query"]]:
    """z and the logsumexp of every row, from `TILE` keys at a time; the full pattern never exists.

    Each row tracks the largest score so far and the sum of exponentials relative to it; when a
    larger score appears, the previous sums are rescaled (online softmax). A fully masked row gets z
    = 0 and logsumexp = 0. Dao et al. 2022 (FlashAttention), §3.1, algorithm 1.
    """
    largest = torch.full(head.q.shape[:1], -math.inf, dtype=head.q.dtype)
    total, z = torch.zeros_like(largest), torch.zeros_like(head.q)
    for _, tile in head.tiles():
        scores = tile.scores().masked_fill(~tile.mask, -math.inf)
        above = torch.maximum(largest, scores.amax(-1))
        level = above.masked_fill(above == -math.inf, 0.0)  # no allowed key so far
        weights, kept = torch.exp(scores - level[:, None]), torch.exp(largest - level)
        total = total * kept + weights.sum(-1)
        z = z * kept[:, None] + weights @ tile.v
        largest = above
    seen = total > 0
    z = z / total.masked_fill(~seen, 1.0)[:, None]
    return z, (largest + total.log()).masked_fill(~seen, 0.0)


def fused_backward(
    head: HeadInputs,
    z: Float[Tensor, "query d_head"],
    logsumexp: Float[Tensor, " query"],
    grad_z: Float[Tensor, "query d_head"],
) -> dict[Gradient, Tensor]:
    """The gradients of v, q and k from the outputs of `fused_forward`: z and one number per row.

    The pattern is recomputed, `TILE` keys at a time, as exp(score - logsumexp), and the mean of a
    row is z . grad_z, since sum_j p_j (grad_z . v_j) = grad_z . z. The gradients of the pattern and
    the scores exist for one tile only. Dao et al. 2022 (FlashAttention), appendix B.2.
    """
    mean = (z * grad_z).sum(-1, keepdim=True)
    grad_q, grad_k, grad_v = map(torch.zeros_like, (head.q, head.k, head.v))
    for at, tile in head.tiles():
        pattern = torch.exp(tile.scores() - logsumexp[:, None]).masked_fill(~tile.mask, 0.0)
        grad_dots = pattern * (grad_z @ tile.v.T - mean) * tile.slope()
        grad_v[at] = pattern.T @ grad_z
        grad_k[at] = grad_dots.T @ tile.q
        grad_q += grad_dots @ tile.k
    return {"v": grad_v, "q": grad_q, "k": grad_k}


@dataclass(frozen=True, eq=False)
class HeadBackward:
    """The gradients of one head's v, pattern, scores, q, k, by hand in float64.

    `upstream` [query, d_head] is the gradient of z: of a token's logit, or of half the squared norm
    of z in a model without logits. `errors` are the largest differences from
    autograd, `recomputed` those of the fused pass, which only has v, q and k. With shared key/value
    heads, the gradients of v and k are this head's share.
    """

    upstream: Float[np.ndarray, "query d_head"] = field(repr=False)
    gradients: dict[Gradient, np.ndarray] = field(repr=False)
    errors: dict[Gradient, float]
    recomputed: dict[Gradient, float]
    row_sums: float


def head_backward(
    loaded: LoadedModel, trace: Trace, site: AttentionSite, head: int, goal: tuple[int, int] | None
) -> HeadBackward:
    """The backward pass of one head of a Trace.

    `goal` is a position and the token whose logit is used; None: no logit. Raises
    ValueError for another model's Trace.
    """
    require_same_model(loaded, trace)
    q, k, v = (torch.tensor(trace.activations[site.hook(what)]).double() for what in "qkv")
    kv_head = head * len(k) // len(q)
    mask, biases = torch.tensor(trace.mask(site.name)[head]), bias_of(trace, site)
    bias = torch.zeros(mask.shape) if biases is None else torch.tensor(biases[head])
    scaling = trace.config.divisor, trace.config.score_cap
    own = HeadInputs(q[head], k[kv_head], v[kv_head], mask, bias.double(), *scaling)
    pattern = own.pattern(own.scores())
    grad_z = pattern @ own.v
    if goal is not None:
        grad_z = gradient_at(loaded, trace, site.hook("z"), *goal)[head].double()
    by_hand = attention_backward(own, pattern, grad_z)
    again = fused_backward(own, *fused_forward(own), grad_z)
    by_torch = _autograd(own, grad_z)

    def errors(gradients: dict[Gradient, Tensor]) -> dict[Gradient, float]:
        apart = {name: gradients[name] - by_torch[name] for name in GRADIENTS if name in gradients}
        return {name: float(difference.abs().max()) for name, difference in apart.items()}

    return HeadBackward(
        upstream=grad_z.numpy(),
        gradients={name: by_hand[name].numpy() for name in GRADIENTS},
        errors=errors(by_hand),
        recomputed=errors(again),
        row_sums=float(by_hand["scores"].sum(-1).abs().max()),
    )


def _autograd(head: HeadInputs, grad_z: Tensor) -> dict[Gradient, Tensor]:
    """The five gradients of `HeadBackward`, computed by torch's autograd."""
    with torch.inference_mode(False), torch.enable_grad():
        q, k, v = (tensor.clone().requires_grad_() for tensor in head[:3])
        head = head._replace(q=q, k=k, v=v, bias=head.bias.clone())
        scores = head.scores()
        pattern = head.pattern(scores)
        inputs = [v, pattern, scores, q, k]
        gradients = torch.autograd.grad(pattern @ v, inputs, grad_z.clone())
    return dict(zip(GRADIENTS, gradients, strict=True))


def show(result: HeadBackward, view: View) -> b.Blocks:
    """The choice of a gradient, its picture, all of them against autograd, and the memory."""
    goal = goal_of(view)
    if goal is None:
        yield b.Prose(view.t("score.backward_lead_silent"))
    else:
        token = quoted(view, view.loaded.str_tokens(goal[1:])[0])
        yield b.Prose(view.t("score.backward_lead", token=token))
    chosen, label = view.choices(ScoreChoices).gradient, view.t("score.backward_which")
    symbols, display = {name: NAMES[name] for name in GRADIENTS}, b.Display(quiet=True)
    yield b.Pick("score.gradient", label, symbols, chosen, b.sets("gradient"), display=display)
    yield _matrix(view, chosen, result.gradients[chosen])
    yield _table(view, result)
    yield b.Sentence("aside", _reading(view, result))
    slope = "" if view.loaded.config.score_cap is None else r"\circ (1 - \tanh^2)"
    root = view.latex_divisor
    lines = (
        r"dV = A^\top dZ,\quad dA = dZ\,V^\top,\quad "
        r"dS_{ij} = A_{ij}\Big(dA_{ij} - \sum_k A_{ik}\,dA_{ik}\Big),\quad "
        rf"dQ = \frac{{(dS{slope})\,K}}{{{root}}},\quad "
        rf"dK = \frac{{(dS{slope})^\top Q}}{{{root}}}",
        r"A_{ij} = e^{S_{ij} - L_i},\quad L_i = \log\sum_j e^{S_{ij}},\qquad "
        r"\sum_k A_{ik}\,dA_{ik} = dZ_i\cdot Z_i",
    )
    yield b.Formula(lines, view.t("score.backward_formula"))
    yield b.Code((attention_backward, fused_forward, fused_backward), first=True)


def _matrix(view: View, name: Gradient, values: np.ndarray) -> b.Matrices:
    """One gradient: query by key, or token by dimension."""
    queries, keys = site_axes(view)
    rows, columns = queries if name in ("pattern", "scores", "q") else keys, keys
    place: tuple[int, int] | None = (view.row, key_of(view))
    if name not in ("pattern", "scores"):
        columns = Axis.numbers(values.shape[1], view.t("figures.score.dimension"))
        place = None
    shown = signed(values, (rows, columns), NAMES[name], selected=place)
    title = view.t("score.backward_alt", name=NAMES[name])
    return b.Matrices("score.backward", ((title, shown),), captioned=False)


def _table(view: View, result: HeadBackward) -> b.Table:
    formulas = MADE | (CAPPED if view.loaded.config.score_cap is not None else {})
    rows = [
        [
            f"**{NAMES[name]}**",
            formulas[name].format(divisor=view.divisor),
            " × ".join(map(str, result.gradients[name].shape)),
            digits(float(np.abs(result.gradients[name]).max(initial=0.0)), 2),
            number(result.errors[name]),
            number(result.recomputed[name]) if name in result.recomputed else "–",
        ]
        for name in GRADIENTS
    ]
    names = ("made", "shape", "largest", "error", "recomputed")
    return b.Table(["", *(view.t("score.gradients", name) for name in names)], rows, "llrrrr")


def _reading(view: View, result: HeadBackward) -> str:
    """The distance of the manual gradients from autograd's, with and without a stored pattern."""
    error, again = (max(of.values()) for of in (result.errors, result.recomputed))
    values = {"error": error, "again": again, "sums": result.row_sums}
    shown = {name: number(value) for name, value in values.items()}
    return view.t("score.backward_reading", **shown)


EXHIBIT = Exhibit(head_backward, show, inputs={"goal": goal_of}, open=partial(is_open, "backward"))
