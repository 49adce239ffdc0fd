"""Roles of heads: where their weight lies, by one kernel for rows of attention of any origin.

A row is the attention of one query. Heads reads the rows of a sentence, Atlas of a corpus, Circuits
of repeated tokens, and Alignment rows of words.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from explorer.once import once
from models.hooks import AttentionSite, Role

BesideMeasure = Literal["previous", "same", "next"]
KeyMeasure = Literal["first", "last", "punctuation", "rare"]
Measure = Literal[BesideMeasure, KeyMeasure, "repeat", "induction", "spread", "alignment"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
"""What a head's weight may lie on.

`repeat`: the same token elsewhere; `induction`: what followed that token (Olsson et al. 2022);
`spread`: the entropy of a row as a share of the maximum; `alignment`: the mutual information of
queries and keys as a share of the maximum, per sentence.
"""
LACKING: dict[Role, frozenset[Measure]] = {
    "encoder": frozenset({"induction", "alignment"}),
    "decoder": frozenset({"next", "last", "alignment"}),
    "cross": frozenset({"previous", "same", "next", "repeat", "induction"}),
}
"""Measures that a role cannot have, or that it cannot distinguish from another one."""
BESIDE: dict[Measure, int] = {"same": 0, "previous": -1, "next": 1}
"""The measures defined by a distance."""
REACH = 16
OFFSETS = 2 * REACH + 1
"""Distances from -REACH to REACH tokens; the outermost two bins include everything farther."""
BROAD = 0.8
"""A row counts as spread out if its entropy is at least this share of the maximum."""
CELLS = 1 << 13
"""Pattern cells that are summed by distance at a time."""


@dataclass(frozen=True, eq=False)
class SequenceKeys:
    """The keys of one sequence: their ids, the number of real ones, which are words (no special
    tokens, no padding), and which are of each kind that the key alone decides."""

    tokens: Int[Tensor, "batch pos"]
    n: Int[Tensor, " batch"]
    words: Bool[Tensor, "batch pos"]
    kinds: Mapping[Measure, Bool[Tensor, "batch pos"]]


@dataclass(frozen=True, eq=False)
class Share:
    """One measure at one site: its weight in each sentence, the number of rows whose heaviest key
    is of its kind, the number of rows with such a key, and their weight under uniform attention.

    `rows` and `chance` have one entry for all heads if these have the same mask.
    """

    weight: Float[Tensor, "batch head"]
    top: Int[Tensor, " head"]
    rows: Int[Tensor, "batch #head"]
    chance: Float[Tensor, " #head"]


@dataclass(frozen=True, eq=False)
class AttentionRows:
    """The attention of one site in the rows that count; `pattern` and `open_to` are 0 elsewhere.

    `open_to` are the keys that a query may attend to, per head or for all heads.
    """

    pattern: Float[Tensor, "batch head query key"]
    open_to: Bool[Tensor, "batch #head query key"]
    counts: Bool[Tensor, "batch #head query"]

    @classmethod
    def of(
        cls,
        pattern: Float[Tensor, "batch head query key"],
        mask: Bool[Tensor, "batch #head query key"],
        counts: Bool[Tensor, "batch #head query"],
    ) -> "AttentionRows":
        """The rows of a pattern that count; `mask` are the keys open to each query."""
        return cls(pattern * counts[..., None], mask & counts[..., None], counts)

    def even(self) -> "AttentionRows":
        """The same rows under uniform attention, for what any measure would be by chance."""
        return AttentionRows(self.open_to * self.uniform[..., None], self.open_to, self.counts)

    @property
    def n_rows(self) -> Int[Tensor, "batch #head"]:
        """The number of rows that count."""
        return self.counts.sum(-1)

    @once
    def n_open(self) -> Int[Tensor, "batch #head query"]:
        """The number of keys that each query may attend to."""
        return self.open_to.sum(-1)

    @once
    def uniform(self) -> Float[Tensor, "batch #head query"]:
        """The weight of each open key under uniform attention."""
        return self.counts / self.n_open.clamp_min(1)

    @once
    def top_key(self) -> Int[Tensor, "batch head query"]:
        """The heaviest key of each row."""
        return self.pattern.argmax(-1)

    @once
    def of_keys(self) -> Float[Tensor, "batch head key"]:
        """The weight of each key, summed over the rows."""
        return self.pattern.sum(2)

    @once
    def entropies(self) -> Float[Tensor, "batch head query"]:
        """The entropy of each row in bits."""
        return _entropy(self.pattern)

    @once
    def by_offset(self) -> Float[Tensor, "batch head offset"]:
        """The weight at each distance, and last the sum of weight times distance."""
        n_query, n_key = self.pattern.shape[2:]
        step = max(1, CELLS // n_key)
        total = self.pattern.new_zeros(*self.pattern.shape[:2], OFFSETS + 1)
        for first in range(0, n_query, step):
            part = self.pattern[:, :, first : first + step]
            total += part.flatten(2) @ _offset_table(first, part.shape[2], n_key)
        return total

    def rows_with_offsets(self) -> Int[Tensor, " offset"]:
        """The number of queries with an open key at each distance, if all heads have one mask."""
        open_to = self.open_to[:, 0]
        far = [open_to.tril(-REACH).any(-1).sum(), open_to.triu(REACH).any(-1).sum()]
        near = [self._at(offset).sum() for offset in range(1 - REACH, REACH)]
        return torch.stack([far[0], *near, far[1]])

    def information(self) -> tuple[Float[Tensor, "batch head"], Float[Tensor, "batch #head"]]:
        """The mutual information of query and key in bits, H(mean row) - mean H(row), and its
        upper bound, log2 of the number of rows, or of open keys if fewer.

        It is high if every row is sharp and different rows attend to different keys, so it
        distinguishes an alignment from a head that always attends to one key.
        """
        n = self.n_rows.clamp_min(1)[..., None]
        bits = _entropy(self.of_keys / n) - self.entropies.sum(-1) / n[..., 0]
        fewer = torch.minimum(self.n_rows, self.open_to.any(2).sum(-1))
        return bits, fewer.clamp_min(1).to(bits.dtype).log2()

    def shares(self, site: AttentionSite, keys: SequenceKeys) -> dict[Measure, Share]:
        """Every measure that a site of this role can have."""
        relative = self.entropies / self.n_open.clamp_min(2).to(self.pattern.dtype).log2()
        spread = self._share(relative.sum(-1), relative >= BROAD, self.counts)
        shares: dict[Measure, Share] = {**self.by_key(keys.kinds), "spread": spread}
        if site.kind == "self":
            shares |= self.beside() | self.repeats(keys, causal=site.stack == "decoder")
        else:
            shares["alignment"] = self.aligned()
        return {name: share for name, share in shares.items() if name not in LACKING[site.role]}

    def by_key(self, kinds: Mapping[Measure, Bool[Tensor, "batch key"]]) -> dict[Measure, Share]:
        """The measures that the key alone decides: the first one, and `kinds`."""
        has_first = self.open_to[..., 0]
        first = self._share(self.of_keys[..., 0], self.top_key == 0, has_first, has_first)
        shares: dict[Measure, Share] = {"first": first}
        such = torch.stack([*kinds.values()], -1)  # [batch, key, kind]
        numbers = such.to(self.pattern.dtype)
        weight = self.of_keys @ numbers
        n_such = self.open_to.to(self.pattern.dtype) @ numbers[:, None]
        flat = self.top_key.flatten(1)  # [batch, head x query]
        for at, name in enumerate(kinds):
            is_top = such[..., at].gather(1, flat).view(self.top_key.shape)
            n_keys = n_such[..., at]
            shares[name] = self._share(weight[..., at], is_top, n_keys > 0, n_keys)
        return shares

    def beside(self) -> dict[Measure, Share]:
        """The measures that the distance decides."""
        shares: dict[Measure, Share] = {}
        places = torch.arange(self.top_key.shape[2])
        for name, offset in BESIDE.items():
            has, is_top = self._at(offset), self.top_key == places + offset
            shares[name] = self._share(self.by_offset[..., offset + REACH], is_top, has, has)
        return shares

    def repeats(self, keys: SequenceKeys, causal: bool) -> dict[Measure, Share]:
        """The other occurrences of the query's token, and if `causal` the tokens after them."""
        ids = keys.tokens
        same = (ids[:, :, None] == ids[:, None, :]) & keys.words[:, None]
        cells: dict[Measure, Tensor] = {"repeat": same}
        if causal:  # key k follows token k - 1, which is the query's own
            cells["induction"] = torch.zeros_like(same)
            cells["induction"][:, :, 1:] = same.tril(-1)[:, :, :-1]
        for such in cells.values():
            such.diagonal(dim1=1, dim2=2).zero_()
        return {name: self.on(such[:, None]) for name, such in cells.items()}

    def on(self, cells: Bool[Tensor, "#batch #head query key"]) -> Share:
        """The measure of any cells."""
        cells = cells & self.open_to
        some = cells.flatten(1).any(1).nonzero().flatten()  # most sentences have no such cell
        weight = self.pattern.new_zeros(self.pattern.shape[:2])
        weight[some] = (self.pattern[some] * cells[some]).sum((2, 3))
        per_head = cells.expand(self.pattern.shape)
        is_top = per_head.gather(3, self.top_key[..., None])[..., 0]
        return self._share(weight, is_top, cells.any(-1), cells.sum(-1))

    def aligned(self) -> Share:
        """The information of each sentence as a share of its bound; 1 row where it is defined: not
        for fewer than two rows or keys."""
        bits, bound = self.information()
        defined = bound > 0
        shares = (bits / torch.where(defined, bound, 1.0)).clamp(0.0, 1.0) * defined
        nothing = bits.new_zeros(bound.shape[1])
        return Share(shares, (shares >= 0.5).sum(0), defined.long(), nothing)

    def _at(self, offset: int) -> Bool[Tensor, "batch #head query"]:
        """Which queries have an open key at this distance."""
        has = torch.zeros_like(self.counts)
        if -self.open_to.shape[2] < offset < self.open_to.shape[3]:
            first = max(0, -offset)
            diagonal = self.open_to.diagonal(offset, dim1=2, dim2=3)
            has[..., first : first + diagonal.shape[-1]] = diagonal
        return has

    def _share(
        self,
        weight: Float[Tensor, "batch head"],
        is_top: Bool[Tensor, "batch head query"],
        has: Bool[Tensor, "batch #head query"],
        n_keys: Tensor | float = 0.0,  # how many such keys are open, [batch, #head, query]
    ) -> Share:
        top = (is_top & self.counts).sum((0, 2))
        return Share(weight, top, has.sum(-1), (n_keys * self.uniform).sum((0, 2)))


def _entropy(rows: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows"]:
    return -(rows * rows.clamp_min(1e-30).log2()).sum(-1)


@lru_cache(maxsize=32)
def _offset_table(first: int, n_query: int, n_key: int) -> Tensor:
    """[query x key, offset + 1] of queries from `first` on: one-hot distance, then |distance|."""
    far = torch.arange(n_key) - torch.arange(first, first + n_query)[:, None]
    table = torch.zeros(n_query * n_key, OFFSETS + 1)
    table.scatter_(1, far.clamp(-REACH, REACH).flatten()[:, None] + REACH, 1.0)
    table[:, -1] = far.abs().flatten()
    return table
