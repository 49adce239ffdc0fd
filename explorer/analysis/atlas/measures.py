"""Where the weight of every head lies, summed over the queries of a batch of sentences.

A row is the attention of one query. Only rows with a choice count: those of real tokens that may
attend to at least two keys. A shard sums in float32 within a batch and in float64 over its batches,
in a fixed order, so the result is bit-identical wherever it is computed.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from explorer.analysis.atlas.sums import (
    COUNTS,
    KEPT,
    LACKING,
    MEASURES,
    OFFSETS,
    REACH,
    Measure,
    Sums,
)
from explorer.library import LoadedModel
from models.hooks import AttentionSite, visiting
from models.pictures.patches import as_tokens
from models.rows import Rows, Stream

BROAD = 0.8
"""A row counts as spread out if its entropy is at least this share of the maximum."""
PRIOR = 2
"""Empty rows added to each sentence when sentences are compared, so that of two sentences with the
same share the longer one ranks higher."""
CELLS = 1 << 13
"""Pattern cells that are summed by distance at a time."""


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Properties of every token of a vocabulary, each Bool [token].

    If the source has a vocabulary of its own, its tokens follow the target's, from
    `of_source` on.
    """

    punctuation: Bool[Tensor, " token"]
    rare: Bool[Tensor, " token"]
    special: Bool[Tensor, " token"]
    begins: Bool[Tensor, " token"]  # has a letter, no blank before it
    ends: Bool[Tensor, " token"]  # has a letter
    of_source: int = 0


@dataclass(frozen=True, eq=False)
class CorpusBatch:
    """A padded batch; `lines` are the lines' offsets, `sources` the hashes of their sources."""

    rows: Rows
    lines: Int[np.ndarray, " batch"]
    sources: Int[np.ndarray, " batch"]


class Adding:
    """Accumulates batches into the Sums of one shard."""

    def __init__(self, loaded: LoadedModel, vocabulary: Vocabulary) -> None:
        self.loaded, self.vocabulary = loaded, vocabulary
        self.sites = loaded.sites
        self.sums = Sums.none(self.sites)
        self._values: list[np.ndarray] = []  # [batch, head, measure] of each batch
        self._lines: list[np.ndarray] = []
        self._sources: list[np.ndarray] = []

    def add(self, batch: CorpusBatch) -> None:
        """Add one forward pass over the batch, without computing logits."""
        rows, reads = batch.rows, self.loaded.model.reads
        seen = read_patterns(self.loaded, rows)
        with torch.inference_mode():
            values, first = [], 0
            about = {s: keys_of(rows, s, self.vocabulary) for s in reads}
            held: dict[str, list[tuple[int, Tensor]]] = {}
            for at, site in enumerate(self.sites):
                pattern, mask = seen.patterns[site.name], seen.masks[site.name]
                chosen, value = self._site(at, first, site, pattern, mask, rows, about)
                held.setdefault(site.role, []).append((first, chosen))
                values.append(value)
                first += site.n_heads
            for of_role in held.values():
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

    def _site(
        self,
        at: int,
        first: int,
        site: AttentionSite,
        pattern: Float[Tensor, "batch head query key"],
        mask: Bool[Tensor, "batch one query key"],
        rows: Rows,
        about: dict[Stream, "SequenceKeys"],
    ) -> tuple[Float[Tensor, "batch head query key"], Float[Tensor, "batch head measure"]]:
        """Add one site; return its pattern in the rows that count, and each sentence's values."""
        sums, heads = self.sums, slice(first, first + site.n_heads)
        open_to = mask[:, 0] & rows.valid(site.query_stream)[..., None]  # [batch, query, key]
        n_open = open_to.sum(-1)
        counts = n_open > 1  # [batch, query]
        open_to = open_to & counts[..., None]
        pattern = pattern * counts[:, None, :, None]
        n_rows = counts.sum(1)  # [batch]
        n_heads, n_query = pattern.shape[1:3]
        entropies = -(pattern * pattern.clamp_min(1e-30).log2()).sum(-1)  # [batch, head, query]
        relative = entropies / n_open.clamp_min(2).to(pattern.dtype).log2()[:, None]
        far = by_offset(pattern)  # [batch, head, offset + 1]
        top_key = pattern.argmax(-1)  # [batch, head, query]
        of_keys = pattern.sum(2)  # [batch, head, key]
        counted = _Counted(open_to, counts, counts / n_open.clamp_min(1), top_key)
        amounts = counted.by_key(of_keys, about[site.key_stream])
        broad = counted.tops(relative >= BROAD)
        amounts["spread"] = Amount(relative.sum(-1), broad, n_rows)
        if site.kind == "self":
            amounts |= counted.beside(far)
            amounts |= counted.repeats(pattern, about[site.key_stream], site.stack == "decoder")
        else:
            shares, defined = _alignment(of_keys, entropies, n_rows)
            amounts["alignment"] = Amount(shares, (shares >= 0.5).sum(0), defined)
        nothing = Amount(torch.zeros_like(of_keys[..., 0]), broad * 0, n_rows * 0)
        table = [
            nothing if name in LACKING[site.role] else amounts.get(name, nothing)
            for name in MEASURES
        ]
        weight = torch.stack([amount.weight for amount in table], dim=-1)
        rows_with = torch.stack([amount.rows for amount in table], dim=-1)
        sums.weight[heads] += weight.double().sum(0).numpy()
        sums.top[heads] += torch.stack([amount.top for amount in table], dim=-1).numpy()
        sums.rows[at] += rows_with.sum(0).numpy()
        sums.chance[at] += [float(amount.chance) for amount in table]
        sums.n_rows[at] += int(n_rows.sum())
        wide = entropies.double()
        sums.entropy[heads, 0] += wide.sum((0, 2)).numpy()
        sums.entropy[heads, 1] += wide.square().sum((0, 2)).numpy()
        sums.distance[heads] += far[..., -1].double().sum(0).numpy()
        sums.by_offset[heads] += far[..., :-1].double().sum(0).numpy()
        offsets = (top_key - torch.arange(n_query)).clamp(-REACH, REACH) + REACH
        numbered = offsets + OFFSETS * torch.arange(n_heads)[:, None]
        numbered = numbered[counts[:, None].expand_as(numbered)]
        by_top = torch.bincount(numbered, minlength=n_heads * OFFSETS).view(n_heads, OFFSETS)
        sums.top_offset[heads] += by_top.numpy()
        sums.has_offset[at] += _rows_with_offsets(open_to).numpy()
        value = weight / (rows_with[:, None] + PRIOR)
        whole = MEASURES.index("alignment")  # a value of the whole sentence, not a sum over rows
        value[..., whole] = weight[..., whole] * (n_rows / (n_rows + PRIOR))[:, None]
        value = value.masked_fill((rows_with == 0)[:, None], -torch.inf)
        return pattern, value

    def _gram(self, of_role: Sequence[tuple[int, Tensor]]) -> None:
        """Add the products of every pair of heads of one role."""
        flat = torch.cat([pattern.flatten(2) for _, pattern in of_role], dim=1)
        products = (flat @ flat.transpose(1, 2)).double().sum(0).numpy()
        numbers = np.concatenate([np.arange(p.shape[1]) + first for first, p in of_role])
        self.sums.gram[np.ix_(numbers, numbers)] += products


@dataclass(frozen=True, eq=False)
class Amount:
    """One measure at one site: its weight in each sentence, the number of rows whose heaviest key
    is of its kind, the number of rows with such a key, and their weight under uniform attention."""

    weight: Float[Tensor, "batch head"]
    top: Int[Tensor, " head"]
    rows: Int[Tensor, " batch"]
    chance: Tensor | float = 0.0


@dataclass(frozen=True, eq=False)
class _Counted:
    """The rows that count at one site; `uniform` is the weight per key if uniform."""

    open_to: Bool[Tensor, "batch query key"]
    counts: Bool[Tensor, "batch query"]
    uniform: Float[Tensor, "batch query"]
    top_key: Int[Tensor, "batch head query"]

    def tops(self, rows: Bool[Tensor, "batch head query"]) -> Int[Tensor, " head"]:
        """The number of these rows that count."""
        return (rows & self.counts[:, None]).sum((0, 2))

    def by_key(
        self, of_keys: Float[Tensor, "batch head key"], keys: "SequenceKeys"
    ) -> dict[Measure, Amount]:
        """The measures that the key alone decides: the first one, and KINDS."""
        first = self.open_to[..., 0]
        chance = (first * self.uniform).sum()
        top = self.tops(self.top_key == 0)
        amounts: dict[Measure, Amount] = {
            "first": Amount(of_keys[..., 0], top, first.sum(1), chance)
        }
        weight = of_keys @ keys.kinds  # [batch, head, kind]
        n_such = self.open_to.to(of_keys.dtype) @ keys.kinds  # [batch, query, kind]
        such = keys.kinds.bool()
        flat = self.top_key.flatten(1)  # [batch, head x query]
        for kind, name in enumerate(KINDS):
            top = self.tops(such[..., kind].gather(1, flat).view(self.top_key.shape))
            n_keys = n_such[..., kind]
            chance = (n_keys * self.uniform).sum()
            amounts[name] = Amount(weight[..., kind], top, (n_keys > 0).sum(1), chance)
        return amounts

    def beside(self, far: Float[Tensor, "batch head offset"]) -> dict[Measure, Amount]:
        """The measures that the distance decides."""
        amounts: dict[Measure, Amount] = {}
        places = torch.arange(self.top_key.shape[2])
        for name, offset in BESIDE.items():
            has = _with_offset(self.open_to, offset)
            top = self.tops(self.top_key == places + offset)
            chance = (has * self.uniform).sum()
            amounts[name] = Amount(far[..., offset + REACH], top, has.sum(1), chance)
        return amounts

    def repeats(
        self, pattern: Float[Tensor, "batch head query key"], keys: "SequenceKeys", causal: bool
    ) -> dict[Measure, Amount]:
        """The other occurrences of the query's token, and if `causal` the tokens after them."""
        ids = keys.tokens
        same = (ids[:, :, None] == ids[:, None, :]) & keys.words[:, None]
        cells: dict[Measure, Tensor] = {"repeat": same & self.open_to}
        if causal:  # key k follows token k - 1, which is the query's own
            after = torch.zeros_like(same)
            after[:, :, 1:] = same.tril(-1)[:, :, :-1]
            cells["induction"] = after & self.open_to
        amounts = {}
        for name, such in cells.items():
            such.diagonal(dim1=1, dim2=2).zero_()
            some = such.flatten(1).any(1).nonzero().flatten()
            weight = pattern.new_zeros(pattern.shape[:2])
            weight[some] = (pattern[some] * such[some, None]).sum((2, 3))
            of_heads = such[some, None].expand(-1, pattern.shape[1], -1, -1)
            top = of_heads.gather(3, self.top_key[some, ..., None]).sum((0, 2, 3))
            chance = (such.sum(-1) * self.uniform).sum()
            amounts[name] = Amount(weight, top, such.any(-1).sum(1), chance)
        return amounts


class _AllSeenError(Exception):
    """Ends a forward pass early, once everything needed has been recorded."""


class PatternRecorder:
    """A visitor that records the pattern of every site, and its mask for the first head. It ends
    the pass after the last pattern."""

    def __init__(self, sites: Sequence[AttentionSite]) -> None:
        self._pattern = {site.hook("pattern"): site.name for site in sites}
        self._mask = {site.hook("mask"): site.name for site in sites}
        self.patterns: dict[str, Tensor] = {}
        self.masks: dict[str, Tensor] = {}

    def wants(self, name: str) -> bool:
        return name in self._pattern or name in self._mask

    def __call__(self, name: str, tensor: Tensor) -> None:
        if name in self._mask:
            self.masks[self._mask[name]] = tensor[:, :1]
            return
        self.patterns[self._pattern[name]] = tensor
        if len(self.patterns) == len(self._pattern):
            raise _AllSeenError


def read_patterns(loaded: LoadedModel, rows: Rows) -> PatternRecorder:
    """One pass over the rows, up to the last pattern; records all patterns and masks."""
    seen, model = PatternRecorder(loaded.sites), loaded.model
    with torch.inference_mode(), visiting(seen), suppress(_AllSeenError):
        there = rows.to(next(model.parameters()).device)
        memory = model.memory_of(there)
        model.last_stack.run(there, memory)
    return seen


BESIDE: dict[Measure, int] = {"same": 0, "previous": -1, "next": 1}
"""The measures defined by a distance."""
KINDS: tuple[Measure, ...] = ("last", "punctuation", "rare")
"""The measures defined by the key alone, independent of the query."""


@dataclass(frozen=True, eq=False)
class SequenceKeys:
    """The keys of one sequence: their ids, the number of real ones, which are words (no special
    tokens, no padding), and their KINDS."""

    tokens: Int[Tensor, "batch pos"]
    n: Int[Tensor, " batch"]
    words: Bool[Tensor, "batch pos"]
    kinds: Float[Tensor, "batch pos kind"]


def keys_of(rows: Rows, stream: Stream, vocabulary: Vocabulary) -> SequenceKeys:
    """Classify the keys of a sequence."""
    tokens, valid = rows.tokens(stream), rows.valid(stream)
    n = valid.sum(1)
    last = torch.arange(tokens.shape[1]) == n[:, None] - 1
    if tokens.dim() > 2:  # patches: none is punctuation or rare
        ids = torch.tensor([as_tokens(row) for row in tokens.tolist()])
        kinds = torch.stack([last & valid, *[torch.zeros_like(valid)] * 2], dim=-1)
        return SequenceKeys(ids, n, valid, kinds.float())
    at = tokens + vocabulary.of_source if stream == "src" else tokens
    words = valid & ~vocabulary.special[at]
    joined = vocabulary.ends[at[:, :-1]] & vocabulary.begins[at[:, 1:]]
    rare = vocabulary.rare[at]
    rare[:, 1:] |= joined  # a word split into several tokens counts as rare
    rare[:, :-1] |= joined
    punctuation = vocabulary.punctuation[at]
    kinds = torch.stack([last & valid, punctuation & words, rare & words & ~punctuation], dim=-1)
    return SequenceKeys(tokens, n, words, kinds.float())


@lru_cache(maxsize=32)
def _offset_table(first: int, n_query: int, n_key: int) -> Tensor:
    """[query x key, offset + 1] of queries from `first` on: one-hot distance, then |distance|."""
    far = torch.arange(n_key) - torch.arange(first, first + n_query)[:, None]
    table = torch.zeros(n_query * n_key, OFFSETS + 1)
    table.scatter_(1, far.clamp(-REACH, REACH).flatten()[:, None] + REACH, 1.0)
    table[:, -1] = far.abs().flatten()
    return table


def by_offset(pattern: Float[Tensor, "batch head query key"]) -> Float[Tensor, "batch head offset"]:
    """The weight at each distance, and last the sum of weight times distance, of each sentence."""
    n_query, n_key = pattern.shape[2:]
    step = max(1, CELLS // n_key)
    total = pattern.new_zeros(*pattern.shape[:2], OFFSETS + 1)
    for first in range(0, n_query, step):
        part = pattern[:, :, first : first + step]
        total += part.flatten(2) @ _offset_table(first, part.shape[2], n_key)
    return total


def _with_offset(
    open_to: Bool[Tensor, "batch query key"], offset: int
) -> Bool[Tensor, "batch query"]:
    """Which queries have a key at this distance."""
    found = torch.zeros(open_to.shape[:2], dtype=torch.bool)
    if abs(offset) < open_to.shape[1]:
        first = max(0, -offset)
        diagonal = open_to.diagonal(offset, dim1=1, dim2=2)
        found[:, first : first + diagonal.shape[1]] = diagonal
    return found


def _rows_with_offsets(open_to: Bool[Tensor, "batch query key"]) -> Int[Tensor, " offset"]:
    """The number of queries with a key at each distance."""
    found = torch.zeros(OFFSETS, dtype=torch.long)
    n_query, n_key = open_to.shape[1:]
    for offset in range(1 - REACH, REACH):
        if -n_query < offset < n_key:
            found[offset + REACH] = open_to.diagonal(offset, dim1=1, dim2=2).sum()
    found[0] = open_to.tril(-REACH).any(-1).sum()
    found[-1] = open_to.triu(REACH).any(-1).sum()
    return found


def _alignment(
    by_key: Float[Tensor, "batch head key"],
    entropies: Float[Tensor, "batch head query"],
    n_rows: Int[Tensor, " batch"],
) -> tuple[Float[Tensor, "batch head"], Int[Tensor, " batch"]]:
    """Mutual information of query and key as a share of its upper bound; and 1 where it is defined.

    It is undefined for sentences with fewer than two rows or keys.
    """
    mean = by_key / n_rows.clamp_min(1)[:, None, None]
    of_mean = -(mean * mean.clamp_min(1e-30).log2()).sum(-1)
    information = of_mean - entropies.sum(-1) / n_rows.clamp_min(1)[:, None]
    n_keys = (by_key.sum(1) > 0).sum(-1)
    fewer = torch.minimum(n_rows, n_keys)
    bound = fewer.clamp_min(2).to(by_key.dtype).log2()
    ok = fewer > 1
    return (information / bound[:, None]).clamp(0.0, 1.0) * ok[:, None], ok.long()
