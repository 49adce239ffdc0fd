"""The sums of an atlas: totals over sentences, and the best sentences of each head."""

from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Float, Int

from explorer.analysis.roles import MEASURES, OFFSETS
from models.hooks import AttentionSite

KEPT = 24
"""Sentences stored per head and measure: the twenty of the atlas, plus spares in case several share
one source."""
COUNTS = ("sentences", "queries", "too_long", "unreadable")
"""Sentences and queries read; lines with too many tokens or bytes; lines that are not UTF-8."""


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over sentences. Heads are numbered over all sites, in the model's order.

    `weight` is the weight on each measure's keys and `top` the number of rows whose heaviest key is
    one, over the `rows` rows with such a key; `chance` is the weight under uniform attention.
    `entropy` holds the rows' entropy in bits and its square; `distance` the mean distance per row
    in tokens. `by_offset` and `top_offset` are weight and heaviest keys by distance, over the
    `has_offset` rows with a key there. `gram` holds the products of the patterns of two heads of
    one role, summed over all cells. `best_…` are the sentences in which a measure is largest: its
    value (-inf for none), the line's offset in the file, the hash of its source. `cost` is the
    number of sentences in which each head was ablated, the loss in log-probability per token (nats,
    a mean over its sentence), and its square.
    """

    weight: Float[np.ndarray, "head measure"]
    top: Int[np.ndarray, "head measure"]
    rows: Int[np.ndarray, "site measure"]
    chance: Float[np.ndarray, "site measure"]
    n_rows: Int[np.ndarray, " site"]
    entropy: Float[np.ndarray, "head 2"]
    distance: Float[np.ndarray, " head"]
    by_offset: Float[np.ndarray, "head offset"]
    top_offset: Int[np.ndarray, "head offset"]
    has_offset: Int[np.ndarray, "site offset"]
    gram: Float[np.ndarray, "head head"]
    cost: Float[np.ndarray, "head 3"]
    counts: Int[np.ndarray, " count"]
    best_value: Float[np.ndarray, "head measure best"]
    best_line: Int[np.ndarray, "head measure best"]
    best_source: Int[np.ndarray, "head measure best"]

    @classmethod
    def none(cls, sites: tuple[AttentionSite, ...]) -> "Sums":
        """Empty sums."""
        n, s, m = sum(site.n_heads for site in sites), len(sites), len(MEASURES)
        return cls(
            weight=np.zeros((n, m)),
            top=np.zeros((n, m), np.int64),
            rows=np.zeros((s, m), np.int64),
            chance=np.zeros((s, m)),
            n_rows=np.zeros(s, np.int64),
            entropy=np.zeros((n, 2)),
            distance=np.zeros(n),
            by_offset=np.zeros((n, OFFSETS)),
            top_offset=np.zeros((n, OFFSETS), np.int64),
            has_offset=np.zeros((s, OFFSETS), np.int64),
            gram=np.zeros((n, n)),
            cost=np.zeros((n, 3)),
            counts=np.zeros(len(COUNTS), np.int64),
            best_value=np.full((n, m, KEPT), -np.inf, np.float32),
            best_line=np.zeros((n, m, KEPT), np.int64),
            best_source=np.zeros((n, m, KEPT), np.int64),
        )

    def __add__(self, other: "Sums") -> "Sums":
        """The sum of both; keeps the KEPT best sentences, no two with the same source."""
        values = {
            field.name: getattr(self, field.name) + getattr(other, field.name)
            for field in fields(self)
            if not field.name.startswith("best_")
        }
        best = ("best_value", "best_line", "best_source")
        both = (np.concatenate([getattr(self, b), getattr(other, b)], axis=2) for b in best)
        return Sums(**values, **dict(zip(best, top_lines(*both), strict=True)))

    def count(self, name: str) -> int:
        """The count named `name`, one of COUNTS."""
        return int(self.counts[COUNTS.index(name)])

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays by name: the content of a shard's file."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def top_lines(
    value: Float[np.ndarray, "head measure line"],
    line: Int[np.ndarray, "head measure line"],
    source: Int[np.ndarray, "head measure line"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The KEPT largest values with their lines, in descending order. Ties go to the earlier line of
    the file; of several lines with one source only the first in this order is included."""
    for again in (False, True):
        order = np.lexsort((line, -value), axis=-1)
        value, line, source = (np.take_along_axis(x, order, -1) for x in (value, line, source))
        if again:
            break
        alike = (source[..., :, None] == source[..., None, :]) & (value[..., None, :] > -np.inf)
        value = np.where(np.tril(alike, -1).any(-1), np.float32(-np.inf), value)
    return value[..., :KEPT], line[..., :KEPT], source[..., :KEPT]


def pack(arrays: dict[str, np.ndarray], sites: tuple[AttentionSite, ...]) -> Sums:
    """The inverse of `Sums.arrays`. Raises ValueError for arrays of another shape or dtype."""
    for name, like in Sums.none(sites).arrays().items():
        array = arrays.get(name)
        if array is None or array.shape != like.shape or array.dtype != like.dtype:
            raise ValueError(f"{name} is missing or has another shape")
    return Sums(**{field.name: arrays[field.name] for field in fields(Sums)})
