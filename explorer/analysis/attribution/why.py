"""Score decomposition: one attention score as a sum over components of its query and its key.

score = sum over a, b of q_a . k_b / divisor + the positional bias, where q_a is the contribution of
component a to the query and k_b the contribution of component b to the key, each with the scale of
every earlier norm frozen (`writers`). Changes of the score that are not sums of products (a tanh
cap, rounding in half precision) are separate terms.

Softmax ignores a constant added to all scores of a query. So a score can also be compared with the
score of another key: the difference is a sum of the same kind.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from explorer.analysis.attribution.ledger import FrozenNorm, Ledger, Writer, array
from explorer.analysis.attribution.writers import Detail, Side, read_by
from explorer.library import LoadedModel
from explorer.runs.passes import Steps
from explorer.runs.rerun import require_same_model, rerun, rows_of
from explorer.runs.trace import Trace
from models.hooks import AttentionSite, Edits
from models.positions import Rotation, positions_of
from models.transformer import Stack


@dataclass(frozen=True, eq=False)
class Why:
    """The decomposed score of one cell; with `against`, its difference from that key's score.

    `matrix` [query writer, key writer] holds q_a . k_b / divisor; `bias` is the positional bias
    (ALiBi, T5; None without one), `cap` is what the cap subtracts (None without one), `rest` is the
    residual: score - matrix - bias - cap. `queries` and `keys` are the pieces; the keys have two
    positions if two keys are compared.
    """

    site: AttentionSite
    head: int
    query: int
    key: int
    score: float
    bias: float | None
    cap: float | None
    matrix: Float[np.ndarray, "query_writer key_writer"]
    queries: Ledger = field(repr=False)
    keys: Ledger = field(repr=False)
    divisor: float
    allowed: bool
    against: int | None = None

    @property
    def by_query(self) -> Float[np.ndarray, " query_writer"]:
        """The contribution of each query component to the score, with the whole key."""
        return self.matrix.sum(1)

    @property
    def by_key(self) -> Float[np.ndarray, " key_writer"]:
        """The contribution of each key component to the score, with the whole query."""
        return self.matrix.sum(0)

    @property
    def rest(self) -> float:
        """The part of the score that the terms do not explain."""
        return self.score - float(self.matrix.sum()) - (self.bias or 0.0) - (self.cap or 0.0)

    def of(self, side: Side) -> tuple[Ledger, Float[np.ndarray, " writer"]]:
        """The ledger of one side, and the contribution of each of its components."""
        return (self.queries, self.by_query) if side == "query" else (self.keys, self.by_key)

    def without(self, side: Side) -> Float[np.ndarray, " writer"]:
        """q . k / divisor without each component on one side, every norm's scale recomputed."""
        if side == "query":
            return self.queries.without[:, 0] @ _compared(self.keys.whole[None])[0] / self.divisor
        return _compared(self.keys.without) @ self.queries.whole[0] / self.divisor

    def left_out(self, side: Side) -> Float[np.ndarray, " writer"]:
        """The error of freezing: how much further q . k / divisor falls without a component than
        its piece predicts, if the norms recompute their scale. Negative if it falls less."""
        return float(self.matrix.sum()) - self.without(side) - self.of(side)[1]


def _compared(
    keys: Float[np.ndarray, "writer one_or_two d_head"],
) -> Float[np.ndarray, "writer d_head"]:
    """The vectors of one key, or their difference from those of a second key."""
    return keys[:, 0] if keys.shape[1] == 1 else keys[:, 0] - keys[:, 1]


def why(
    loaded: LoadedModel,
    trace: Trace,
    site: AttentionSite,
    head: int,
    query: int,
    key: int,
    against: int | None = None,
    detail: Detail = "heads",
) -> Steps[Why]:
    """Decompose the score of a cell; with `against`, its difference from that key's score.

    Raises IndexError for a head, query or key out of range, ValueError for another model's Trace.
    """
    require_same_model(loaded, trace)
    scores = trace.activations[site.hook("scores")]
    keys_asked = [key] if against is None else [key, against]
    indices = (head, query, *keys_asked)
    sizes = (*scores.shape, scores.shape[-1])
    for name, index, size in zip(("head", "query", "key", "key"), indices, sizes, strict=False):
        if not 0 <= index < size:
            raise IndexError(f"{name} {index}: there are {size}")
    queries = yield from projected(loaded, trace, site, head, "query", [query], detail)
    keys = yield from projected(loaded, trace, site, head, "key", keys_asked, detail)
    divisor, cap = loaded.config.divisor, loaded.config.score_cap
    matrix = queries.pieces[:, 0] @ _compared(keys.pieces).T / divisor
    biases = trace.activations.get(site.hook("bias"))

    def at_keys(values: np.ndarray) -> float:
        """The value at the key; with two keys, the first minus the second."""
        return float(values[0] if against is None else values[0] - values[1])

    raw = keys.whole @ queries.whole[0] / divisor
    return Why(
        site=site,
        head=head,
        query=query,
        key=key,
        score=at_keys(scores[head, query, keys_asked].astype(np.float64)),
        bias=None if biases is None else at_keys(biases[head, query, keys_asked]),
        cap=None if cap is None else at_keys(cap * np.tanh(raw / cap) - raw),
        matrix=matrix,
        queries=queries,
        keys=keys,
        divisor=divisor,
        allowed=bool(trace.mask(site.name)[head, query, key]),
        against=against,
    )


def projected(
    loaded: LoadedModel,
    traced: Trace,
    site: AttentionSite,
    head: int,
    side: Side,
    positions: Sequence[int],
    detail: Detail = "heads",
) -> Steps[Ledger]:
    """The queries or keys that a head compares at these positions, as sums over components.

    They are taken after the query/key norm and after the rotation by position, if the model has
    these. A head that shares its keys with others uses the shared keys.
    """
    ledger = yield from read_by(loaded, traced, site, side, positions, detail)
    kv_heads, d_head = loaded.config.kv_heads, loaded.config.d_head
    own = head if side == "query" else head // (site.n_heads // kv_heads)
    letter = "q" if side == "query" else "k"
    part = loaded.part(f"{site.name}.w_{letter}")
    rows, joint = slice(own * d_head, (own + 1) * d_head), loaded.config.qk_norm_joint
    if joint:  # the norm's scale depends on all heads
        rows = slice(None)
    bias = getattr(part, "bias", None)
    ledger.linear(
        array(part.get_parameter("weight")[rows]), None if bias is None else array(bias[rows])
    )
    norm = loaded.part(f"{site.name}.{letter}_norm")
    if not isinstance(norm, nn.Identity):
        ledger.norm(FrozenNorm(norm))
    if joint:
        ledger.pick(slice(own * d_head, (own + 1) * d_head))
    rotation = rotation_of(loaded, traced, site, positions)
    if rotation is not None:
        ledger.turn(rotation)
    return ledger


def rotation_of(
    loaded: LoadedModel, traced: Trace, site: AttentionSite, positions: Sequence[int]
) -> Rotation | None:
    """The rotation of a site's queries and keys at these positions; None if not rotary."""
    if site.kind == "cross" or not loaded.config.turns(site.layer):
        return None
    stack = loaded.model.get_submodule(traced.stack(site.query_stream).name)
    assert isinstance(stack, Stack)
    rows = rows_of(traced)
    valid = rows.src_valid if site.query_stream == "src" else rows.tgt_valid
    places = positions_of(valid, rows.tokens(site.query_stream))
    placement = stack.positions.place(places, places)
    if loaded.config.looks_near(site.layer) and placement.near is not None:
        placement = placement.near
    if placement.rotation is None:
        return None
    at = list(positions)
    cos, sin = (factor.cpu()[:1, :, at] for factor in placement.rotation)
    return cos, sin


@dataclass(frozen=True, eq=False)
class Removal:
    """One component removed from the query or key of a cell, and the effect on its row of weights.

    `scores` and `patterns` are the row [key] before, as predicted from the pieces, as measured in a
    run of the model whose q or k lacks the piece, and as measured with the component removed where
    it wrote, so that every norm recomputes its scale.
    """

    side: Side
    writer: Writer
    scores: Float[np.ndarray, "4 key"]
    patterns: Float[np.ndarray, "4 key"]
    key: int

    @property
    def error(self) -> float:
        """The largest difference between a predicted and a measured weight in the row."""
        return float(np.abs(self.patterns[1] - self.patterns[2]).max())


def remove(loaded: LoadedModel, traced: Trace, reason: Why, side: Side, writer: int) -> Removal:
    """Remove a component from the query (its whole row changes) or the key (one cell changes).

    The effect is predicted by arithmetic alone, then measured with a visitor at `hook_q` or
    `hook_k`. Raises IndexError for a component out of range.
    """
    site, head, query, key = reason.site, reason.head, reason.query, reason.key
    ledger = reason.of(side)[0]
    piece, lone = ledger.pieces[writer, 0], ledger.without[writer, 0]
    scores = traced.activations[site.hook("scores")][head, query].astype(np.float64)
    biases = traced.activations.get(site.hook("bias"))
    bias = np.zeros_like(scores) if biases is None else biases[head, query].astype(np.float64)
    keys = traced.activations[site.hook("k")].astype(np.float64)
    keys = keys[head // (site.n_heads // len(keys))]
    if side == "query":
        fallen = keys @ piece / reason.divisor
    else:
        fallen = np.zeros_like(scores)
        fallen[key] = float(piece @ reason.queries.whole[0]) / reason.divisor
    products = keys @ reason.queries.whole[0] / reason.divisor - fallen
    cap = loaded.config.score_cap
    capped = products if cap is None else cap * np.tanh(products / cap)
    predicted = np.where(fallen == 0, scores, capped + bias)
    mask = traced.mask(site.name)[head, query]
    rows, patterns = [scores, predicted], [_softmax(scores, mask), _softmax(predicted, mask)]
    for vector in (ledger.whole[0] - piece, lone):
        measured, pattern = _measured(loaded, traced, reason, side, vector)
        rows.append(measured)
        patterns.append(pattern)
    patterns[0] = traced.pattern(site.name)[head, query].astype(np.float64)
    return Removal(side, ledger.writers[writer], np.stack(rows), np.stack(patterns), key)


def _softmax(
    scores: Float[np.ndarray, " key"], mask: Bool[np.ndarray, " key"]
) -> Float[np.ndarray, " key"]:
    if not mask.any():
        return np.zeros_like(scores)
    exponentials = np.where(mask, np.exp(np.where(mask, scores - scores[mask].max(), 0.0)), 0.0)
    return exponentials / exponentials.sum()


def _measured(
    loaded: LoadedModel, traced: Trace, reason: Why, side: Side, vector: np.ndarray
) -> tuple[Float[np.ndarray, " key"], Float[np.ndarray, " key"]]:
    """The row's scores and pattern in a run of the model with this query or key instead."""
    site, head = reason.site, reason.head
    place, row = ("q", head), reason.query
    if side == "key":
        shared = site.n_heads // loaded.config.kv_heads
        place, row = ("k", head // shared), reason.key
    change = Edits({site.hook(place[0]): partial(_put, head=place[1], row=row, vector=vector)})
    hooks = site.hook("scores"), site.hook("pattern")
    seen = rerun(loaded, traced, hooks, change)
    scores, pattern = (seen[hook][0, head, reason.query].double().numpy() for hook in hooks)
    return scores, pattern


def _put(tensor: Tensor, head: int, row: int, vector: np.ndarray) -> Tensor:
    """Queries or keys [1, head, pos, d_head] with this vector at one head and position."""
    changed = tensor.clone()
    changed[:, head, row] = torch.tensor(vector, dtype=tensor.dtype)
    return changed
