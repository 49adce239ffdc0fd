"""One cell of one head in full: from q and k to the logit of a token.

Every number is read from the Trace, or is a tensor of the Trace times one weight matrix of the
model. The cell's effect on a logit is measured by running the model without the cell.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from explorer.analysis.heads.measures import entropy
from explorer.library import LoadedModel
from explorer.runs import rerun
from explorer.runs.trace import Trace
from models.attention import Attention, attend, capped
from models.config import ModelConfig
from models.hooks import LOGITS, AttentionSite, Edits, visiting


@dataclass(frozen=True, eq=False)
class Cell:
    """A query, a key, and all intermediate values between them in one head.

    `q`, `k`, `v` [d_head] as the head used them (after a rotation, if there is one); `scores` [key]
    is the query's row, scaled and before the mask, and `biases` [key] its positional bias (None
    without one); `written` [d_model] is what this cell adds to the attention output, weight x v
    W_O; `head_written` is the same for the whole row and `site_written` for all heads with the bias
    of W_O; `stream` [d_model] is the residual stream before the sublayer. A head ablated by an edit
    writes nothing.
    """

    site: AttentionSite
    head: int
    query: int
    key: int
    q: Float[np.ndarray, " d_head"] = field(repr=False)
    k: Float[np.ndarray, " d_head"] = field(repr=False)
    v: Float[np.ndarray, " d_head"] = field(repr=False)
    scores: Float[np.ndarray, " key"] = field(repr=False)
    biases: Float[np.ndarray, " key"] | None = field(repr=False)
    allowed: Bool[np.ndarray, " key"] = field(repr=False)
    cap: float | None  # scaled products x become cap tanh(x / cap) (Gemma 2)
    weights: Float[np.ndarray, " key"] = field(repr=False)
    written: Float[np.ndarray, " d_model"] = field(repr=False)
    head_written: Float[np.ndarray, " d_model"] = field(repr=False)
    site_written: Float[np.ndarray, " d_model"] = field(repr=False)
    stream: Float[np.ndarray, " d_model"] = field(repr=False)
    divisor: float

    @property
    def products(self) -> Float[np.ndarray, " d_head"]:
        """q x k, dimension by dimension; their sum is `dot`."""
        return self.q * self.k

    @property
    def dot(self) -> float:
        """q . k, before scaling."""
        return float(self.products.sum())

    @property
    def scaled(self) -> float:
        """q . k / divisor: the score before any cap and positional bias."""
        return self.dot / self.divisor

    @property
    def bias(self) -> float | None:
        """The positional bias of this query and key; None if the model has none here."""
        return None if self.biases is None else float(self.biases[self.key])

    @property
    def score(self) -> float:
        """The scaled score, as computed by the model."""
        return float(self.scores[self.key])

    @property
    def is_allowed(self) -> bool:
        """Whether the mask lets this query see this key."""
        return bool(self.allowed[self.key])

    @property
    def largest(self) -> float:
        """The largest score in the row that the mask allows; 0 if it allows none."""
        return float(self.scores[self.allowed].max()) if self.allowed.any() else 0.0

    @property
    def exponentials(self) -> Float[np.ndarray, " key"]:
        """exp(score - largest), 0 where the mask blocks: the numerators of softmax."""
        shifted = np.where(self.allowed, self.scores.astype(np.float64) - self.largest, -np.inf)
        return np.exp(shifted)

    @property
    def row_sum(self) -> float:
        """The denominator of softmax: the sum of the row's exponentials."""
        return float(self.exponentials.sum())

    @property
    def weight(self) -> float:
        """The attention weight, 0 to 1."""
        return float(self.weights[self.key])


def attend_as(config: ModelConfig) -> Callable[..., tuple[Tensor, Tensor]]:
    """`attend` with this model's divisor and score cap."""
    return partial(attend, divisor=config.score_divisor, cap=config.score_cap)


def attended(
    traced: Trace, site: AttentionSite, **changed: Any
) -> tuple[Float[Tensor, "1 head query d_value"], Float[Tensor, "1 head query key"]]:
    """z and pattern of a site, computed again by `attend` with some arguments `changed`."""
    named = {what: torch.tensor(traced.activations[site.hook(what)])[None] for what in "qkv"}
    named["mask"], biases = torch.tensor(traced.mask(site.name))[None], bias_of(traced, site)
    bias = None if biases is None else torch.tensor(biases)[None]
    return attend_as(traced.config)(**{**named, "bias": bias, **changed})


def stream_before(traced: Trace, site: AttentionSite) -> Float[np.ndarray, "query d_model"]:
    """The residual stream just before a site, at its queries."""
    what = "resid_mid" if site.kind == "cross" else "resid_pre"
    return traced.activations[site.block_hook(what)]


def bias_of(traced: Trace, site: AttentionSite) -> Float[np.ndarray, "head query key"] | None:
    """The positional bias of a site's scaled scores; None if it has none."""
    return traced.activations.get(site.hook("bias"))


def module_of(loaded: LoadedModel, site: AttentionSite) -> Attention:
    """The attention sublayer at a site. Raises TypeError if the module is of another type."""
    module = loaded.part(site.name)
    if not isinstance(module, Attention):
        raise TypeError(f"{site.name} is {type(module).__name__}, not Attention")
    return module


def site_inputs(
    loaded: LoadedModel, traced: Trace, site: AttentionSite
) -> tuple[Float[Tensor, "query d_model"], Float[Tensor, "key d_model"]]:
    """The input of a site's W_Q, and the input of its W_K and W_V, from the Trace.

    In self-attention the two are one tensor. A norm before the sublayer is applied.
    """
    x = torch.tensor(stream_before(traced, site))
    with torch.inference_mode():
        if traced.config.norm_placement == "pre":
            x = norm_of(loaded, site)(x)
        if site.kind == "self":
            return x, x
        source = traced.stack(site.key_stream)
        memory = torch.tensor(traced.activations[source.hook("resid_final")])
        finish: Any = loaded.part(source.path("final_norm"))
        return x, finish(memory)


def norm_of(loaded: LoadedModel, site: AttentionSite) -> nn.Module:
    """The norm before or after an attention sublayer."""
    name = "cross_attn_norm" if site.kind == "cross" else "attn_norm"
    return loaded.part(f"{site.block}.{name}")


def output_weights(
    loaded: LoadedModel, site: AttentionSite
) -> tuple[Float[np.ndarray, "d_model head d_head"], Float[np.ndarray, " d_model"]]:
    """W_O split into the part of each head, and its bias (zeros if it has none)."""
    w_o = loaded.part(f"{site.name}.w_o")
    weight: Tensor = w_o.get_parameter("weight").detach()
    bias = getattr(w_o, "bias", None)
    added = np.zeros(len(weight), np.float32) if bias is None else bias.detach().numpy()
    return weight.numpy().reshape(len(weight), site.n_heads, -1), added


def cell_of(
    loaded: LoadedModel, traced: Trace, site: AttentionSite, head: int, query: int, key: int
) -> Cell:
    """One cell of a Trace. Raises IndexError for a head, query or key out of range."""
    rerun.require_same_model(loaded, traced)
    pattern = traced.pattern(site.name)
    wanted = {"head": head, "query": query, "key": key}
    for (name, index), size in zip(wanted.items(), pattern.shape, strict=True):
        if not 0 <= index < size:
            raise IndexError(f"{site.name} has no {name} {index}: its size is {size}")
    q, k, v, z, scores = (
        traced.activations[site.hook(what)] for what in ("q", "k", "v", "z", "scores")
    )
    kv_head = head // (len(q) // len(k))
    biases = bias_of(traced, site)
    slices, bias = output_weights(loaded, site)
    weight = 0.0 if head in rerun.heads_off(traced, site.name) else pattern[head, query, key]
    return Cell(
        site=site,
        head=head,
        query=query,
        key=key,
        q=q[head, query],
        k=k[kv_head, key],
        v=v[kv_head, key],
        scores=scores[head, query],
        biases=None if biases is None else biases[head, query],
        allowed=traced.mask(site.name)[head, query],
        cap=traced.config.score_cap,
        weights=pattern[head, query],
        written=slices[:, head] @ (weight * v[kv_head, key]),
        head_written=slices[:, head] @ z[head, query],
        site_written=np.einsum("mhd,hd->m", slices, z[:, query]) + bias,
        stream=stream_before(traced, site)[query],
        divisor=traced.config.divisor,
    )


@dataclass(frozen=True, eq=False)
class Effect:
    """The effect of a cell on the logits after position `position` of the decoder's sequence.

    `tokens` are candidates, most probable first, with the chosen one at index `chosen`; `before`
    and `after` [candidate] are their logits with the cell and without its output. `slope` is weight
    x d logit / d weight of the chosen token: the same effect to first order.
    """

    position: int
    tokens: tuple[int, ...]
    str_tokens: tuple[str, ...]
    chosen: int
    before: Float[np.ndarray, " candidate"] = field(repr=False)
    after: Float[np.ndarray, " candidate"] = field(repr=False)
    slope: float

    @property
    def change(self) -> Float[np.ndarray, " candidate"]:
        """The contribution of the cell to each logit: with it minus without it."""
        return self.before - self.after


def chosen_token(traced: Trace, position: int) -> int:
    """The token generated after a position; if there is none, the most probable one."""
    written = rerun.written_tokens(traced)
    return written[position] if position < len(written) else traced.predicted_tokens[position]


def effect(
    loaded: LoadedModel,
    traced: Trace,
    cell: Cell,
    position: int,
    token: int | None = None,
    n: int = 6,
) -> Effect:
    """Run the model again without this cell's output, for the `n` most probable tokens.

    `token` is the chosen one (None: as `chosen_token`). Raises IndexError for a position or token
    out of range, ValueError for another model's Trace.
    """
    rerun.require_same_model(loaded, traced)
    n_real = int(traced.tgt_valid.sum())
    if not 0 <= position < n_real:
        raise IndexError(f"there is no position {position}: the sequence has {n_real}")
    chosen = chosen_token(traced, position) if token is None else token
    if not 0 <= chosen < traced.config.vocab_size:
        raise IndexError(
            f"there is no token {chosen}: the vocabulary has {traced.config.vocab_size}"
        )
    likeliest = np.argsort(-traced.logits[position], kind="stable")[:n].tolist()
    tokens = tuple(likeliest if chosen in likeliest else [*likeliest[: n - 1], chosen])
    off = cell.head in rerun.heads_off(traced, cell.site.name)
    missing = torch.tensor((0.0 if off else cell.weight) * cell.v)
    without = Edits({cell.site.hook("z"): partial(_without, cell=cell, missing=missing)})
    after = rerun.rerun(loaded, traced, {LOGITS}, without)[LOGITS][0, position].numpy()
    by_weight = gradient_at(loaded, traced, cell.site.hook("pattern"), position, chosen)
    return Effect(
        position=position,
        tokens=tokens,
        str_tokens=tuple(loaded.str_tokens(tokens)),
        chosen=tokens.index(chosen),
        before=traced.logits[position, list(tokens)],
        after=after[list(tokens)],
        slope=cell.weight * float(by_weight[cell.head, cell.query, cell.key]),
    )


def _without(z: Tensor, cell: Cell, missing: Tensor) -> Tensor:
    """z [batch, head, query, d_head] minus the contribution of one cell."""
    changed = z.clone()
    changed[:, cell.head, cell.query] -= missing
    return changed


def gradient_at(loaded: LoadedModel, traced: Trace, hook: str, position: int, token: int) -> Tensor:
    """The gradient of a logit at the tensor of a hook point, without its batch axis."""
    with torch.inference_mode(False), torch.enable_grad():
        nudge = torch.zeros(traced.activations[hook].shape, requires_grad=True)
        nudged = Edits({hook: lambda tensor: tensor + nudge})
        with visiting(rerun.edits_of(traced).then(nudged)):
            logit = loaded.model.read(rerun.rows_of(traced))[0, position, token]
        (gradient,) = torch.autograd.grad(logit, [nudge], materialize_grads=True)
    return gradient


def lengths(vectors: Sequence[Float[np.ndarray, " d_model"]]) -> tuple[float, ...]:
    """The Euclidean length of each vector."""
    return tuple(float(np.linalg.norm(vector)) for vector in vectors)


Scaling = Literal["none", "head", "model"]
SCALINGS: tuple[Scaling, ...] = get_args(Scaling)


@dataclass(frozen=True, eq=False)
class ScaledHead:
    """One head under one scaling: its allowed scores, and means over its rows of real tokens.

    q . k of d_head independent features has the variance d_head. Undivided, softmax saturates: one
    key takes all the weight and the gradient vanishes. Divided by sqrt(d_model), a common mistake,
    it is too flat. Vaswani et al. 2017, §3.2.1.

    `entropy` is in bits; `top` is the largest weight of a row, 0 to 1; `gradient` is the Frobenius
    norm of the softmax Jacobian diag(p) - p p^T. Rows with fewer than two allowed keys are not
    counted, since softmax has no choice there; NaN if there are no other rows.
    """

    scaling: Scaling
    divisor: float
    scores: Float[np.ndarray, " allowed"] = field(repr=False)
    pattern: Float[np.ndarray, "query key"] = field(repr=False)
    entropy: float
    top: float
    gradient: float


def divisor_of(scaling: Scaling, d_head: int, d_model: int) -> float:
    """The divisor of q . k."""
    return {"none": 1.0, "head": math.sqrt(d_head), "model": math.sqrt(d_model)}[scaling]


def scaled(traced: Trace, site: AttentionSite, head: int, scaling: Scaling) -> ScaledHead:
    """One head of a Trace with its scores scaled differently. Raises KeyError, IndexError."""
    q, k = (torch.tensor(traced.activations[site.hook(what)]) for what in "qk")
    config, mask, biases = traced.config, traced.mask(site.name), bias_of(traced, site)
    divisor = divisor_of(scaling, config.d_head, config.d_model)
    weights = attended(traced, site, divisor=divisor)[1][0, head].numpy()
    valid = traced.src_valid if site.query_stream == "src" else traced.tgt_valid
    allowed = mask[head] & valid[:, None]
    rows = weights[allowed.sum(1) > 1]
    dots = q[head] @ k[head * len(k) // len(q)].T
    scores = capped(dots / divisor, config.score_cap).numpy()
    scores = scores if biases is None else scores + biases[head]  # which are not divided
    return ScaledHead(
        scaling=scaling,
        divisor=divisor,
        scores=scores[allowed],
        pattern=weights,
        entropy=mean_of(entropy(rows)),
        top=mean_of(rows.max(1, initial=0.0)),
        gradient=mean_of(softmax_gradient(rows)),
    )


def softmax_gradient(pattern: Float[np.ndarray, "*rows key"]) -> Float[np.ndarray, "*rows"]:
    """||diag(p) - p p^T|| (Frobenius) of each row p: how much softmax lets a gradient through."""
    p = np.asarray(pattern, np.float64)
    square = (p**2).sum(-1)
    return np.asarray(np.sqrt(np.maximum(square - 2 * (p**3).sum(-1) + square**2, 0.0)))


def mean_of(values: Float[np.ndarray, " row"]) -> float:
    """The mean; NaN for an empty array."""
    return float(values.mean()) if len(values) else math.nan
