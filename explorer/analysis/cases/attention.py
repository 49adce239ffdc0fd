"""Claims about attention: variance, saturation, fill values, reference code, a single head,
reach."""

import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from explorer.analysis.cases.case import Curves, Result, ResultRow, curve_of, judged, matching
from explorer.analysis.cases.fills import (
    hidden_with_a_billion,
    hidden_with_infinity,
    hidden_with_ten_thousand,
)
from explorer.analysis.cases.planting import Pattern, causal_keep, fixed_scores, own_case, own_heads
from explorer.analysis.heads.measures import entropy
from explorer.analysis.score.steps import Scaling, scaled, softmax_gradient
from explorer.runs.passes import seeded
from explorer.runs.trace import Trace
from models.hooks import AttentionSite
from models.masks import causal_mask

WIDTHS = (4, 16, 64, 256, 1024)
Draw = Callable[[tuple[int, ...], torch.Generator], Tensor]


def _normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Independent standard normal entries."""
    return torch.randn(shape, generator=generator)


def variance(traced: Trace, draw: Draw = _normal) -> Result:
    """Var(q . k) of entries drawn by `draw`, compared with q = k and with the user's head.

    10 % is five times the error of 8,000 samples.
    """
    generator = torch.Generator().manual_seed(0)
    rows = []
    for width in WIDTHS:
        q, k = draw((2, 8000, width), generator)
        rows.append(_variances("independent", (q * k).sum(-1), width))
    q = torch.randn(8000, 64, generator=generator)
    same = _variances("equal_vectors", (q * q).sum(-1), 64)
    site = traced.sites[0]
    q, k = (torch.tensor(traced.activations[site.hook(what)])[0] for what in ("q", "k"))
    own = _variances("own_head", q @ k.T, traced.config.d_head)
    holds = [abs(row.values[1] - 1) < 0.1 for row in rows]
    verdict = judged(all(holds), false=not any(holds))
    columns = ("variance", "variance_scaled")
    curve = curve_of(rows, columns, "features", "variance")
    return Result(verdict, columns, (*rows, same, own), curve)


def _variances(name: str, dots: Tensor, width: int) -> ResultRow:
    spread = float(dots.double().var())
    return ResultRow(name, (spread, spread / width), of=str(width))


def saturation(traced: Trace, width: int = 1024) -> Result:
    """Softmax with and without division by sqrt(d): random queries and keys of `width` features,
    and the user's heads."""
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 400, 16, width, generator=generator)
    dots = (q[:, :1] @ k.transpose(1, 2))[:, 0]
    rows = [
        _softness(name, (dots / divisor).softmax(-1).numpy())
        for name, divisor in (("random_none", 1.0), ("random_head", math.sqrt(width)))
    ]
    scalings: tuple[tuple[str, Scaling], ...] = (("own_none", "none"), ("own_scaled", "head"))
    for name, scaling in scalings:
        heads = [
            scaled(traced, site, head, scaling)
            for site in traced.sites
            for head in range(site.n_heads)
        ]
        seen = [head for head in heads if not math.isnan(head.top)]
        means = [np.mean([getattr(h, what) for h in seen] or [math.nan]) for what in _SOFT]
        rows.append(ResultRow(name, tuple(float(mean) for mean in means)))
    gradients = [row.values[2] for row in rows]
    gone = [2 * gradients[0] < gradients[1], 2 * gradients[2] < gradients[3]]
    verdict = judged(all(gone), false=not any(gone))
    return Result(verdict, _SOFT, rows, bars="gradient")


_SOFT = ("top", "entropy", "gradient")


def _softness(name: str, pattern: Float[np.ndarray, "row key"]) -> ResultRow:
    values = (pattern.max(1), entropy(pattern), softmax_gradient(pattern))
    return ResultRow(name, tuple(float(value.mean()) for value in values))


FILLS: dict[str, Pattern] = {
    "ten_thousand": hidden_with_ten_thousand,
    "billion": hidden_with_a_billion,
    "infinity": hidden_with_infinity,
}


def fills(traced: Trace, ways: Mapping[str, Pattern] = FILLS) -> Result:
    """The weight left on hidden keys: for the user's scores (random ones for a model without a
    causal mask), very low scores, and an empty row. Only NaN is as good as NaN."""
    own = own_case(traced)
    ordinary = "own_scores" if own else "random_scores"
    fixed = fixed_scores()
    scores, keep = own or (fixed, causal_keep(fixed))
    low = torch.tensor([[[[-12000.0, -12001.0, 0.0]]]])
    last = torch.tensor([[[[True, True, False]]]])
    nothing = torch.zeros_like(last)
    rows, as_good = [], []
    for name, s, m in (
        (ordinary, scores, keep),
        ("low_scores", low, last),
        ("empty_row", low, nothing),
    ):
        left = {way: float((fill(s, m) * ~m).sum(-1).max()) for way, fill in ways.items()}
        rows.append(ResultRow(name, tuple(left.values())))
        as_good.append(
            all(np.isclose(v, left["infinity"], atol=1e-6, equal_nan=True) for v in left.values())
        )
    return Result(judged(all(as_good), false=not as_good[0]), tuple(ways), rows)


def one_bias(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False
) -> Tensor:
    """Attention as in reference code: every mask is filled into one bias [query, key]."""
    bias = torch.zeros(q.shape[-2], k.shape[-2])
    if causal:
        if mask is not None:
            raise RuntimeError("a mask and is_causal cannot be combined")
        bias.masked_fill_(~causal_mask(*bias.shape), -math.inf)
    if mask is not None and mask.dtype == torch.bool:
        bias.masked_fill_(~mask, -math.inf)
    elif mask is not None:
        bias = bias + mask
    return (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + bias).softmax(-1) @ v


def _self_site(traced: Trace) -> AttentionSite:
    """The first self-attention site of the sequence that the logits belong to."""
    own = (site for site in traced.sites if site.kind == "self" and site.query_stream == "tgt")
    return next(own)


Attend = Callable[[Tensor, Tensor, Tensor, Tensor | None, bool], Tensor]


def reference(traced: Trace, way: Attend = one_bias) -> Result:
    """The reference code against the operator, with every kind of mask, on the user's q, k, v."""
    site = _self_site(traced)
    q, k, v = own_heads(traced, site.name)
    keep = causal_mask(q.shape[-2])
    empty = keep.clone()
    empty[0] = False
    floats = torch.zeros(keep.shape).masked_fill(~keep, -math.inf)
    cases = {
        "no_mask": (None, False),
        "causal": (None, True),
        "float_mask": (floats, False),
        "bool_mask": (keep, False),
        "mask_of_four_axes": (keep[None, None], False),
        "empty_row": (empty, False),
        "mask_and_causal": (keep, True),
    }
    operator = nn.functional.scaled_dot_product_attention
    rows, same = [], []
    for name, (mask, causal) in cases.items():
        # From torch 2.14 on, the operator rejects a mask together with is_causal.
        expected = _tried(partial(operator, q, k, v, attn_mask=mask, is_causal=causal))
        output = _tried(partial(way, q, k, v, mask, causal))
        difference = math.nan
        if output is not None and expected is not None:
            difference = float((output - expected).abs().max())
        rows.append(ResultRow(name, (difference,)))
        same.append(difference < 1e-4 or output is expected is None)
    return matching(same, ("difference",), rows, "why")


def _tried(run: Callable[[], Tensor]) -> Tensor | None:
    """The result; None if the input is rejected."""
    try:
        return run()
    except (RuntimeError, ValueError):
        return None


LEAST, WIDTH, SEEDS = 12, 64, tuple(range(8))
"""The least number of tokens (a shorter text is repeated), the largest width of the nets, and their
seeds."""


def reach(traced: Trace) -> Result:
    """How much of the last output's gradient reaches every token, in recurrence and in attention.

    The state of a recurrent net is h_t = tanh(W_x x_t + W_h h_{t-1} + b), so the gradient of the
    last state with respect to the token k steps earlier has passed k factors diag(1 - h^2) W_h.
    Their product shrinks or grows geometrically with k (Bengio et al. 1994; Pascanu et al. 2013).
    One layer of attention reads every token directly, z = sum_j a_j W_V x_j, at any distance.

    The values are medians over the seeds: the longest path in steps; the factor per token, which
    is the best-fitting geometric sequence from distance 1; the gradient at the first token divided
    by that at the last but one (attention reads the last as key, value *and* query).
    """
    nets = reaches(read_vectors(traced))
    n_tokens = nets["attention"].shape[1]
    rows, far = [], {}
    for kind, norms in nets.items():
        tiny = np.finfo(np.float64).tiny  # a gradient that is 0 has no logarithm
        logs = np.log(np.maximum(norms[:, 1:], tiny))
        per_token = np.exp(np.polyfit(np.arange(n_tokens - 1), logs.T, 1)[0])
        far[kind] = float(np.median(norms[:, -1] / norms[:, 1]))
        path = 1 if kind == "attention" else n_tokens
        rows.append(ResultRow(f"net_{kind}", (path, float(np.median(per_token)), far[kind])))
    medians = np.stack([np.median(norms, 0) for norms in nets.values()])
    names = tuple(row.name for row in rows)
    curve = Curves(np.arange(n_tokens), medians, names, "distance", "gradient_norm", log_y=True)
    fades = [2 * far[kind] < far["attention"] for kind in nets if kind != "attention"]
    numbers = {"width": min(traced.config.d_model, WIDTH), "seeds": len(SEEDS), "n": n_tokens}
    verdict = judged(all(fades), false=not any(fades))
    return Result(verdict, ("path", "per_token", "far"), rows, curve, numbers=numbers)


def read_vectors(traced: Trace) -> Float[np.ndarray, "pos d_model"]:
    """The embeddings of a Trace's longer text, without padding, repeated to at least `LEAST`."""
    valid = {"src": traced.src_valid, "tgt": traced.tgt_valid}
    texts = [traced.activations[s.hook("embed")][valid[s.stream]] for s in traced.stacks]
    longest = max(texts, key=len)
    return np.resize(longest, (max(len(longest), LEAST), longest.shape[1]))


def reaches(x: Float[np.ndarray, "pos d_in"]) -> dict[str, Float[np.ndarray, "seed distance"]]:
    """Norms of the gradient of one random direction of the last output, by net: new ones for each
    seed, all reading the same vectors; distance 0 is the last token itself.

    Each vector is first scaled to mean 0 and variance 1, as by a LayerNorm, so that the scale of
    a model's embeddings has no effect.
    """
    vectors = nn.functional.layer_norm(torch.tensor(x, dtype=torch.float64), x.shape[1:])
    width = min(x.shape[1], WIDTH)

    def norms(kind: str, seed: int) -> Float[np.ndarray, " distance"]:
        with seeded(seed):
            last = NETS[kind](x.shape[1], width)
            direction = torch.randn(width, dtype=vectors.dtype)
        return gradient_norms(last, vectors, direction / direction.norm())

    return {kind: np.stack([norms(kind, seed) for seed in SEEDS]) for kind in NETS}


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


NETS: dict[str, Callable[[int, int], Callable[[Tensor], Tensor]]] = {
    "attention": attention,
    "recurrent": recurrent,
    "orthogonal": partial(recurrent, orthogonal=True),
}
