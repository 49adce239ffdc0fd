"""Chapter 1 of the path: what attention is."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from explorer.analysis.score.steps import bias_of
from explorer.exhibits.tour.found import (
    Missing,
    QueryRow,
    allowed_of,
    best_row,
    is_mark,
    main_role,
    scores_of,
    varied,
    weights_of,
)
from explorer.library import LoadedModel
from explorer.numerics import softmax
from explorer.runs.trace import Trace

SHARPS = (1.3, 1.02)
"""The minimum ratio of a row's largest weight to the second largest for a question; the second
value is the fallback if no row of this model is as sharp as the first."""


@dataclass(frozen=True, eq=False)
class RankedKeys:
    """A row, its keys in descending order of weight, and the weights [key]."""

    row: QueryRow
    order: tuple[int, ...]
    weights: np.ndarray


def look(loaded: LoadedModel, trace: Trace) -> RankedKeys | Missing:
    """A row with one dominant weight, of the head whose rows differ most."""

    def worth(row: QueryRow, sharp: float) -> float:
        weights, allowed = np.sort(weights_of(trace, row))[::-1], allowed_of(trace, row)
        if allowed.sum() < 3 or weights[0] < sharp * weights[1] or row.query == 0:
            return np.nan
        # Attention to a special token, or to the token itself, makes no useful question.
        best, is_self = int(weights_of(trace, row).argmax()), row.site.kind == "self"
        dull = is_mark(trace.key_tokens(row.site.name)[best]) or (is_self and best == row.query)
        return float(weights[0] - weights[1] - dull)

    role = main_role(trace)
    tried = (best_row(trace, role, partial(worth, sharp=sharp)) for sharp in SHARPS)
    found = next((row for row in tried if row is not None), None)
    if found is None:
        return Missing("flat")
    weights, allowed = weights_of(trace, found), allowed_of(trace, found)
    order = [int(key) for key in np.argsort(-weights, kind="stable") if allowed[key]]
    return RankedKeys(found, tuple(order), weights)


def rest(loaded: LoadedModel, trace: Trace) -> RankedKeys | Missing:
    """A row whose largest weight is neither close to 0 nor close to 1."""

    wanted = varied(trace, 0.25, 0.6)

    def worth(row: QueryRow) -> float:
        if allowed_of(trace, row).sum() < 3:
            return np.nan
        return -abs(float(weights_of(trace, row).max()) - wanted)

    found = best_row(trace, main_role(trace), worth)
    if found is None:
        return Missing("short")
    weights = weights_of(trace, found)
    order = np.argsort(-weights, kind="stable")
    return RankedKeys(found, tuple(int(key) for key in order), weights)


@dataclass(frozen=True, eq=False)
class Ratio:
    """Two keys of a row, the difference of their scores, and the ratio of their weights; `scores`
    and `weights` [key] are the whole row's."""

    row: QueryRow
    more: int
    less: int
    difference: float
    times: float
    scores: np.ndarray
    weights: np.ndarray
    allowed: np.ndarray


def ratio(loaded: LoadedModel, trace: Trace) -> Ratio | Missing:
    """The largest weight of a row compared with one whose score is lower by about `wanted`."""
    wanted = varied(trace, 1.0, 2.2)  # a ratio of about 3 to 9

    def pair(row: QueryRow) -> tuple[float, int, int]:
        scores = np.where(allowed_of(trace, row), scores_of(trace, row), -np.inf)
        top = int(scores.argmax())
        apart = np.abs(scores[top] - scores - wanted)
        other = int(np.argmin(np.where(np.isfinite(apart), apart, np.inf)))
        return float(apart[other]), top, other

    def worth(row: QueryRow) -> float:
        if allowed_of(trace, row).sum() < 2:
            return np.nan
        apart, top, other = pair(row)
        return -apart if top != other and apart < wanted - 0.4 else np.nan

    found = best_row(trace, main_role(trace), worth)
    if found is None:
        return Missing("flat")
    _, more, less = pair(found)
    scores = scores_of(trace, found)
    difference = float(scores[more] - scores[less])
    return Ratio(
        found,
        more,
        less,
        difference,
        float(np.exp(difference)),
        scores,
        weights_of(trace, found),
        allowed_of(trace, found),
    )


@dataclass(frozen=True, eq=False)
class Undivided:
    """A row with q . k divided, as in the model, and undivided; weights [key].

    `biased`: positions add a bias to the scores, which is not divided.
    """

    row: QueryRow
    divisor: float
    divided: np.ndarray
    undivided: np.ndarray
    twice: np.ndarray
    allowed: np.ndarray
    biased: bool


def scale(loaded: LoadedModel, trace: Trace) -> Undivided | Missing:
    """The row in which the key of largest weight gains most if q . k is not divided."""
    divisor = loaded.config.divisor
    if loaded.config.score_cap is not None:
        return Missing("capped")
    if divisor <= 1:
        return Missing("undivided")

    def with_factor(row: QueryRow, factor: float) -> np.ndarray:
        biases = bias_of(trace, row.site)
        bias = 0.0 if biases is None else biases[row.head, row.query].astype(np.float64)
        scores = (scores_of(trace, row) - bias) * factor + bias
        return softmax(np.where(allowed_of(trace, row), scores, -np.inf))

    def worth(row: QueryRow) -> float:
        weights = weights_of(trace, row)
        if allowed_of(trace, row).sum() < 3 or not 0.2 < weights.max() < 0.7:
            return np.nan
        top = int(weights.argmax())  # a bias may let another key win undivided
        return float(with_factor(row, divisor)[top] - weights[top])

    found = best_row(trace, main_role(trace), worth)
    if found is None or worth(found) < 0.1:
        return Missing("flat")
    return Undivided(
        found,
        divisor,
        with_factor(found, 1.0),
        with_factor(found, divisor),
        with_factor(found, 1 / divisor),
        allowed_of(trace, found),
        bias_of(trace, found.site) is not None,
    )


@dataclass(frozen=True, eq=False)
class Carried:
    """A row with the norm of each key's value vector, and its contribution: weight x norm."""

    row: QueryRow
    weights: np.ndarray
    lengths: np.ndarray
    brought: np.ndarray
    allowed: np.ndarray

    @property
    def most(self) -> int:
        """The key that contributes most."""
        return int(self.brought.argmax())

    @property
    def heaviest(self) -> int:
        """The key with the largest weight."""
        return int(np.where(self.allowed, self.weights, -1).argmax())


def values(loaded: LoadedModel, trace: Trace) -> Carried | Missing:
    """A row in which the key with the largest weight contributes little; else the clearest row."""

    def carried(row: QueryRow) -> Carried:
        group = row.site.n_heads // loaded.config.kv_heads
        v = trace.activations[row.site.hook("v")][row.head // group].astype(np.float64)
        weights, lengths = weights_of(trace, row), np.linalg.norm(v, axis=-1)
        return Carried(row, weights, lengths, weights * lengths, allowed_of(trace, row))

    def worth(row: QueryRow) -> float:
        found = carried(row)
        if found.allowed.sum() < 3:
            return np.nan
        second = np.sort(found.brought)[-2]
        if found.brought[found.most] < 1.1 * second:
            return np.nan
        return float(weights_of(trace, row)[found.heaviest] / max(found.weights[found.most], 1e-12))

    found = best_row(trace, main_role(trace), worth)
    return Missing("flat") if found is None else carried(found)


@dataclass(frozen=True)
class AttentionParameters:
    """The parameters of the four attention matrices of a layer: as they are, and with one head.

    The one head is as wide as all heads together.
    """

    n_heads: int
    d_head: int
    own: int
    one_head: int
    shared: bool


def heads(loaded: LoadedModel, trace: Trace) -> AttentionParameters | Missing:
    """Count W_Q, W_K, W_V and W_O of the first layer, without biases."""
    site, config = trace.sites_of(main_role(trace))[0], loaded.config
    sublayer = loaded.model.get_submodule(site.name)
    named = dict(sublayer.named_parameters())
    own = sum(
        named[f"{name}.weight"].numel()
        for name in ("w_q", "w_k", "w_v", "w_o")
        if f"{name}.weight" in named
    )
    if site.n_heads < 2:
        return Missing("one_head")
    one_head = 4 * config.d_model * site.n_heads * config.d_head
    shared = config.kv_heads != config.n_heads
    if not shared and own != one_head:
        return Missing("other_shape")
    return AttentionParameters(site.n_heads, config.d_head, own, one_head, shared)


@dataclass(frozen=True)
class Crossing:
    """The shape of the cross-attention matrix: one row per target token, one column per source."""

    row: QueryRow
    n_query: int
    n_key: int


def cross(loaded: LoadedModel, trace: Trace) -> Crossing | Missing:
    """The head of cross-attention whose rows differ most."""
    sites = trace.sites_of("cross")
    if not sites:
        return Missing("no_cross")
    n_query, n_key = trace.mask(sites[0].name).shape[1:]
    if n_query == n_key:
        return Missing("same_length")
    found = look(loaded, trace)
    row = QueryRow(sites[-1], 0, n_query - 1) if isinstance(found, Missing) else found.row
    return Crossing(row, n_query, n_key)


def first_row(trace: Trace) -> QueryRow:
    """The first row of the first head."""
    return QueryRow(trace.sites_of(main_role(trace))[0], 0, 0)
