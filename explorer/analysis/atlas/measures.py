"""Where the weight of every head lies, summed over the queries of a batch of sentences, and the
best sentences of each head.

Only rows of real tokens that may attend to at least two keys count. Sums are in float32 within a
batch and in float64 over the batches, in a fixed order, so every run gives the same bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from explorer.analysis.atlas.reading import CorpusBatch, Vocabulary, keys_of
from explorer.analysis.roles import MEASURES, OFFSETS, AttentionRows, Measure, Share
from explorer.library import LoadedModel
from explorer.runs.run import run
from models.hooks import AttentionSite
from models.rows import Rows

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
    in tokens. `by_offset` is the weight by distance, over the `has_offset` rows with a key there.
    `gram` holds the products of the patterns of two heads of one role, summed over all cells.
    `best_…` are the sentences in which a measure is largest: its value (-inf for none), the line's
    offset in the file, the hash of its source. `cost` is the number of sentences in which each head
    was ablated, the loss in log-probability per token (nats, a mean over its sentence), and its
    square.
    """

    weight: Float[np.ndarray, "head measure"]
    top: Int[np.ndarray, "head measure"]
    rows: Int[np.ndarray, "site measure"]
    chance: Float[np.ndarray, "site measure"]
    n_rows: Int[np.ndarray, " site"]
    entropy: Float[np.ndarray, "head 2"]
    distance: Float[np.ndarray, " head"]
    by_offset: Float[np.ndarray, "head offset"]
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


PRIOR = 2
"""Empty rows added to each sentence when sentences are compared, so that of two sentences with the
same share the longer one ranks higher."""


def read_attention(
    loaded: LoadedModel, rows: Rows, sites: Sequence[AttentionSite]
) -> dict[str, AttentionRows]:
    """One pass over the rows, up to the last pattern: the attention of each site, by its name, in
    the rows of real tokens with a choice. All heads of a site must have one mask."""
    hooks = {site.hook(name) for site in sites for name in ("pattern", "mask")}
    kept, attention = run(loaded.model, rows, hooks), {}
    for site in sites:
        open_to = kept[site.hook("mask")][:, :1] & rows.valid(site.query_stream)[:, None, :, None]
        counts = open_to.sum(-1) > 1
        attention[site.name] = AttentionRows.of(kept[site.hook("pattern")], open_to, counts)
    return attention


class Adding:
    """Accumulates batches into Sums."""

    def __init__(self, loaded: LoadedModel, vocabulary: Vocabulary) -> None:
        self.loaded, self.vocabulary = loaded, vocabulary
        self.sites = loaded.sites
        self.sums = Sums.none(self.sites)
        self._values: list[np.ndarray] = []  # [batch, head, measure] of each batch
        self._lines: list[np.ndarray] = []
        self._sources: list[np.ndarray] = []

    def add(self, batch: CorpusBatch) -> None:
        """Add one forward pass over the batch, without computing logits."""
        rows, values, first = batch.rows, [], 0
        attention = read_attention(self.loaded, rows, self.sites)
        keys = {
            stream: keys_of(rows, stream, self.vocabulary) for stream in self.loaded.model.reads
        }
        patterns: dict[str, list[tuple[int, Tensor]]] = {}
        with torch.inference_mode():
            for at, site in enumerate(self.sites):
                of_site, heads = attention[site.name], slice(first, first + site.n_heads)
                shares = of_site.shares(site, keys[site.key_stream])
                values.append(self._shares(at, heads, of_site, shares))
                self._distances(at, heads, of_site)
                patterns.setdefault(site.role, []).append((first, of_site.pattern))
                first += site.n_heads
            for of_role in patterns.values():
                self._gram(of_role)
        self._values.append(torch.cat(values, dim=1).numpy())
        self._lines.append(batch.lines)
        self._sources.append(batch.sources)
        n_rows = int(rows.valid("tgt").sum())
        self.sums.counts[:2] += (len(rows), n_rows)

    def skipped(self, **counts: int) -> None:
        """Count lines that were not read."""
        for name, count in counts.items():
            self.sums.counts[COUNTS.index(name)] += count

    def total(self) -> Sums:
        """The sums, and the best sentences of everything added."""
        if not self._values:
            return self.sums
        values = torch.from_numpy(np.concatenate(self._values)).permute(1, 2, 0).contiguous()
        n = min(2 * KEPT, values.shape[2])
        best = values.topk(n, dim=2)
        value, at = best.values.numpy(), best.indices.numpy()
        line, source = np.concatenate(self._lines)[at], np.concatenate(self._sources)[at]
        empty = Sums.none(self.sites)
        return self.sums + replace(empty, best_value=value, best_line=line, best_source=source)

    def _shares(
        self, at: int, heads: slice, rows: AttentionRows, shares: dict[Measure, Share]
    ) -> Float[Tensor, "batch head measure"]:
        """Add every measure of one site; return its value per sentence, -inf without a row."""
        sums, n_rows = self.sums, rows.n_rows
        values = rows.pattern.new_full((*rows.pattern.shape[:2], len(MEASURES)), -torch.inf)
        for name, share in shares.items():
            column = MEASURES.index(name)
            sums.weight[heads, column] += share.weight.double().sum(0).numpy()
            sums.top[heads, column] += share.top.numpy()
            sums.rows[at, column] += int(share.rows.sum())
            sums.chance[at, column] += float(share.chance)
            value = share.weight / (share.rows + PRIOR)
            if name == "alignment":  # a value of the whole sentence, not a sum over rows
                value = share.weight * (n_rows / (n_rows + PRIOR))
            values[..., column] = value.masked_fill(share.rows == 0, -torch.inf)
        return values

    def _distances(self, at: int, heads: slice, rows: AttentionRows) -> None:
        """Add the entropies of one site, and where its weight lies by distance."""
        sums, entropies, far = self.sums, rows.entropies.double(), rows.by_offset.double()
        sums.n_rows[at] += int(rows.n_rows.sum())
        sums.entropy[heads, 0] += entropies.sum((0, 2)).numpy()
        sums.entropy[heads, 1] += entropies.square().sum((0, 2)).numpy()
        sums.distance[heads] += far[..., -1].sum(0).numpy()
        sums.by_offset[heads] += far[..., :-1].sum(0).numpy()
        sums.has_offset[at] += rows.rows_with_offsets().numpy()

    def _gram(self, of_role: Sequence[tuple[int, Tensor]]) -> None:
        """Add the products of every pair of heads of one role."""
        flat = torch.cat([pattern.flatten(2) for _, pattern in of_role], dim=1)
        products = (flat @ flat.transpose(1, 2)).double().sum(0).numpy()
        numbers = np.concatenate([np.arange(p.shape[1]) + first for first, p in of_role])
        self.sums.gram[np.ix_(numbers, numbers)] += products
