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

import numpy as np
from jaxtyping import Float
from torch import nn

from explorer.analysis.attribution.ledger import FrozenNorm, Ledger, array
from explorer.analysis.attribution.writers import Detail, Side, read_by
from explorer.library import LoadedModel
from explorer.runs.passes import Steps
from explorer.runs.rerun import require_same_model, rows_of
from explorer.runs.trace import Trace
from models.hooks import AttentionSite
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
