"""Test a sentence: each method of `Examiner` tests one property of the masks of a callable."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from explorer.once import once
from models.hooks import AttentionSite
from models.masks import window_mask
from models.rows import Rows, Stream

N_PADS = 2
COPIES = 3
"""Rows of a padded batch: some bugs leave the first row intact, others all but the middle one."""
LOW = -1e30
"""A score far below every fill value in use, except the lowest number of a dtype."""
LeftOut = Literal[
    "both_ways",
    "no_cross",
    "no_formula",
    "uncached",
    "no_pad",
    "no_embedding",
    "no_capture",
    "no_cache",
    "not_asked",
    "no_site",
    "unread",
]
"""Why a property is not tested; words at `certify.left_out`."""
Sentence = tuple[tuple[int, ...], tuple[int, ...]]
"""Ids of source (empty without one) and target."""


class UntestableError(ValueError):
    """The output does not depend on the ids, so every property would hold trivially."""


@dataclass(frozen=True)
class Location:
    """The location of the largest deviation; None for an axis that does not apply.

    `name` is a hook point or an attention site. `query` and `key` count from 0 in the row that was
    run; `left` is the padding before its first real token. If a change propagated, `key` is the
    changed token and `query` the position it reached.
    """

    name: str
    layer: int | None = None
    head: int | None = None
    query: int | None = None
    key: int | None = None
    left: int = 0
    stack: str = ""  # "encoder" or "decoder"; "" after both, at the logits


class Worst:
    """The largest deviation so far, and its location; NaN counts as infinite."""

    def __init__(self) -> None:
        self.deviation = 0.0
        self.where: Location | None = None

    def see(self, deviations: Tensor, place: Callable[..., Location]) -> None:
        """Update with `deviations`; calls `place` with the index of the largest, one per axis."""
        if deviations.numel() == 0:
            return
        clean = deviations.double().nan_to_num(nan=math.inf)
        largest = float(clean.max())
        if largest > self.deviation:
            index = np.unravel_index(int(clean.argmax()), clean.shape)
            self.deviation, self.where = largest, place(*map(int, index))


@dataclass(frozen=True, eq=False)
class Site:
    """One attention in a run over padded rows, and how much of each key reaches each query.

    `kind` are the sequences of queries and keys, of which `query_real` [row, query] and `key_real`
    [row, key] are no padding. `weigh(level)` gives the weights [row, head, query, key]; with a
    `level`, all scores are set to it first (None if they cannot be set). `mask`, Bool,
    is the one that was applied, if it was seen. If `every_query`, padding may not attend to hidden
    keys either. `causal`: later keys must be hidden; `window`: so must keys before it.
    """

    name: str
    kind: tuple[Stream, Stream]
    query_real: Tensor
    key_real: Tensor
    causal: bool
    weigh: Callable[[float | None], Tensor | None]
    mask: Tensor | None = None
    every_query: bool = False
    window: int | None = None
    layer: int | None = None
    stack: str = ""

    @property
    def is_self(self) -> bool:
        return self.kind[0] == self.kind[1]

    @property
    def weights(self) -> Tensor:
        """The weights [row, head, query, key] of the run itself."""
        weights = self.weigh(None)
        assert weights is not None
        return weights

    @property
    def visible(self) -> Tensor:
        """Bool [row, head, query, key]: the cells that are open, whatever their scores."""
        level = self.weigh(0.0)
        if level is not None:
            return level != 0
        return (self.weights != 0) if self.mask is None else self.mask.expand(self.weights.shape)

    @property
    def later(self) -> Tensor:
        """Bool [query, key]: keys after the query."""
        weights = self.weights
        return torch.ones(weights.shape[-2:], device=weights.device).triu(1).bool()

    @property
    def pads(self) -> Tensor:
        """Bool [row, 1, 1, key]: padding among the keys."""
        return ~self.key_real[:, None, None, :]

    @property
    def cells(self) -> Tensor:
        """Bool [row, head, query, key]: cells of real queries and real keys."""
        return (self.query_real[:, None, :, None] & ~self.pads).expand(self.weights.shape)

    @property
    def allowed(self) -> Tensor:
        """Bool [row, head, query, key]: the cells that should be open."""
        allowed = self.cells & ~self.later if self.causal else self.cells
        if self.window is not None:
            allowed = allowed & window_mask(allowed.shape[-2], window=self.window)
        return allowed

    def at(self, row: int, head: int, query: int, key: int | None = None) -> Location:
        """One cell, or one row of cells."""
        left = int(self.query_real[row].int().argmax())
        return Location(self.name, self.layer, head, query, key, left, self.stack)


class OtherPads(NamedTuple):
    """Padded rows, their tensors before and after their padding changed, and its first place."""

    rows: Rows
    before: Mapping[str, Tensor]
    after: Mapping[str, Tensor]
    key: int


class Examiner(ABC):
    """One callable and one sentence; each method tests one property.

    A subclass says how to build a batch, run it, change tokens and padding, decode in steps, and
    which attention it sees. A test returns None if nothing here could violate its property.
    """

    outcome: str
    """The name of the output among the tensors of a run."""
    n_pads = N_PADS
    """0 if the callable has no padding."""
    pads_changed = N_PADS
    """Padding next to the tokens that are changed."""
    refuses_constants = False
    """Whether a callable whose output depends on no token is refused."""
    room: float = math.inf
    """The largest number of tokens."""
    tolerance: float
    blocks: Mapping[str, AttentionSite] = {}
    """The blocks whose output a run returns too, by the name of the output."""

    def __init__(self, src: Sequence[int], tgt: Sequence[int]) -> None:
        self.sentence: Sentence = (tuple(src), tuple(tgt))
        self.reach: dict[str, np.ndarray] = {}  # see `Certificate`

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The sequences that it reads."""
        return ("src", "tgt") if self.sentence[0] else ("tgt",)

    # How to run it.

    @abstractmethod
    def batch(self, sentences: Sequence[Sentence], left: int = 0, right: int = 0) -> Rows:
        """Sentences padded to the longest, plus `left` and `right`."""

    @abstractmethod
    def run(self, rows: Rows) -> dict[str, Tensor]:
        """The outputs of the model and of `blocks`, [row, pos, feature]."""

    @abstractmethod
    def moved(self, after: Tensor, before: Tensor) -> Tensor:
        """[..., pos, feature] twice -> [..., pos]: the change relative to the size of values."""

    @abstractmethod
    def another(self, token: Tensor, stream: Stream) -> Tensor | int:
        """A different token for the same place."""

    @abstractmethod
    def other_pads(self, left: int) -> Iterator["OtherPads"]:
        """Runs whose padding, `left` or on the right, reads as other tokens."""

    @abstractmethod
    def steps(self, rows: Rows, sizes: Sequence[int]) -> Iterator[Tensor]:
        """The output [row, pos, feature] of cached steps of so many tokens; a step may give that of
        its last token only."""

    @abstractmethod
    def cached_rows(self) -> Iterator[Rows]:
        """The batches that are read in cached steps."""

    @property
    @abstractmethod
    def sites(self) -> Sequence[Site]:
        """The attention that was seen in padded rows."""

    @property
    def masks(self) -> dict[str, np.ndarray]:
        """The masks recovered from behaviour, by site: Bool [head, query, key]."""
        return {}

    def unproven(self, name: str) -> LeftOut:
        """Why a test returned None; words at `certify.left_out`."""
        return "no_site"

    def tolerance_of(self, name: str) -> float:
        """The largest deviation that is allowed for a property."""
        return self.tolerance

    # Batches and places.

    @once
    def plain(self) -> dict[str, Tensor]:
        """The run of the sentence alone, without padding: the reference for all comparisons."""
        return self.run(self.batch([self.sentence]))

    def stream(self, name: str) -> Stream:
        """The sequence whose positions a tensor of a run has."""
        site = self.blocks.get(name)
        return "tgt" if site is None else site.query_stream

    def changed(self, rows: Rows, stream: Stream, cells: Sequence[Sequence[int]]) -> Rows:
        """A batch of one, repeated: row 0 unchanged, row i + 1 with other tokens at `cells[i]`."""
        copies = rows.select([0] * (len(cells) + 1))
        tokens = copies.tokens(stream)
        for row, places in enumerate(cells, start=1):
            for place in places:
                tokens[row, place] = self.another(tokens[row, place], stream)
        return copies

    def mixed(self) -> list[Sentence]:
        """The sentence between two of other lengths where possible, made of it reversed."""

        def turned(tokens: tuple[int, ...], which: int) -> tuple[int, ...]:
            n = len(tokens)
            wanted = (n - 1, n + 3, n + 1, n - 2) if self.n_pads else ()
            lengths = [length for length in wanted if 0 < length <= self.room]
            return (tokens[::-1] * 4)[: [*lengths, n, n][which]]

        first, last = (
            (turned(self.sentence[0], which), turned(self.sentence[1], which)) for which in (0, 1)
        )
        return [first, self.sentence, last]

    def _at(self, name: str, query: int, key: int | None = None, left: int = 0) -> Location:
        site = self.blocks.get(name)
        if site is None:
            return Location(name, None, None, query, key, left)
        return Location(name, site.layer, None, query, key, left, site.stack)

    def _see(
        self,
        worst: Worst,
        name: str,
        after: Tensor,
        before: Tensor,
        real: Tensor | None = None,
        left: int = 0,
        key: int | None = None,
        first: int = 0,
    ) -> None:
        """Compare tensors [..., pos, feature] that begin at place `first`, at the `real` places."""
        moved = self.moved(after, before)
        moved = moved if real is None else moved.masked_fill(~real, 0.0)
        worst.see(moved, lambda *at: self._at(name, at[-1] + first, key, left))

    # Changed tokens.

    def future_leak(self) -> Worst | None:
        """Change each target token in turn: no earlier position may change, in any layer."""
        row, worst = self.batch([self.sentence], right=self.pads_changed), Worst()
        n_tgt = row.tgt.shape[1]
        after = self.run(self.changed(row, "tgt", [[key] for key in range(n_tgt)]))
        before_it = (
            torch.ones(n_tgt, n_tgt, device=row.tgt.device).tril(-1).bool()
        )  # [changed, pos]
        for name, tensor in after.items():
            if self.stream(name) == "tgt":
                moved = self.moved(tensor[1:], tensor[:1])
                if self.refuses_constants and not bool((moved != 0).any()):
                    raise UntestableError("the logits do not depend on the target ids")
                worst.see(
                    moved.masked_fill(~before_it, 0.0),
                    lambda key, query, name=name: self._at(name, query, key),
                )
        return worst

    def pad_content(self) -> Worst | None:
        """Replace the padding by words: no real position may change."""
        worst, is_seen = Worst(), False
        for left in (0, self.n_pads):
            for change in self.other_pads(left):
                is_seen = True
                for name, before in change.before.items():
                    real = change.rows.valid(self.stream(name))
                    self._see(worst, name, change.after[name], before, real, left, change.key)
        return worst if is_seen else None

    # Padding, cache, prefix: equivalent computations.

    def padding_right(self) -> Worst | None:
        """Padded on the right, the same numbers as alone."""
        return self._padded(0, self.n_pads)

    def padding_left(self) -> Worst | None:
        """Padded on the left, the same numbers as alone."""
        return self._padded(self.n_pads, 0)

    def _padded(self, left: int, right: int) -> Worst:
        worst = Worst()
        after = self.run(self.batch([self.sentence] * COPIES, left, right))
        for name, before in self.plain.items():
            real = after[name][:, left : left + before.shape[1]]
            self._see(worst, name, real, before, left=left, first=left)
        return worst

    def padding_batch(self) -> Worst | None:
        """Batched with sentences of other lengths, the same numbers as alone, in every row."""
        worst, sentences = Worst(), self.mixed()
        after = self.run(self.batch(sentences))
        for row, sentence in enumerate(sentences):
            for name, alone in self.run(self.batch([sentence])).items():
                self._see(worst, name, after[name][row, : alone.shape[1]], alone[0])
        return worst

    def cache(self) -> Worst | None:
        """Steps with a key/value cache: the same numbers as in one pass.

        Tested: one token per step; half of the text at once (a prefill), then one token per step
        or the rest at once; and all at once.
        """
        worst, outcome = Worst(), self.outcome
        for rows in self.cached_rows():
            whole, real, n = self.run(rows)[outcome], rows.valid("tgt"), rows.tgt.shape[1]
            left, half = int(real[0].int().argmax()), max(1, n // 2)
            plans = ([1] * n, [half, *[1] * (n - half)], [half, n - half], [n])
            for sizes in dict.fromkeys(tuple(filter(None, plan)) for plan in plans):
                end = 0
                for size, step in zip(sizes, self.steps(rows, sizes), strict=True):
                    end += size
                    if step.shape[::2] != whole.shape[::2] or step.shape[1] not in (1, size):
                        raise ValueError(
                            f"the step gave logits of shape {list(step.shape)} for {size} tokens "
                            f"of {len(whole)} rows"
                        )
                    part = slice(end - step.shape[1], end)
                    self._see(
                        worst, outcome, step, whole[:, part], real[:, part], left, first=part.start
                    )
        return worst

    def prefix(self) -> Worst | None:
        """A prefix of the target alone: the same logits as in one pass over the whole target."""
        worst, outcome, (src, tgt) = Worst(), self.outcome, self.sentence
        for length in range(1, len(tgt)):
            alone = self.run(self.batch([(src, tgt[:length])]))[outcome]
            self._see(worst, outcome, alone[0], self.plain[outcome][0, :length])
        return worst

    # Weights.

    def future_mass(self) -> Worst | None:
        """No weight above the diagonal of causal self-attention."""
        return self._mass(lambda site: site.causal, lambda site: site.later)

    def pad_mass(self) -> Worst | None:
        """No weight on PAD keys in self-attention."""
        return self._mass(lambda site: site.is_self, lambda site: site.pads)

    def cross_mask(self) -> Worst | None:
        """No weight on PADs of the source in cross-attention."""
        return self._mass(lambda site: not site.is_self, lambda site: site.pads)

    def _mass(
        self, applies: Callable[[Site], bool], hidden: Callable[[Site], Tensor]
    ) -> Worst | None:
        """The largest weight on a key that should be hidden, at the sites that this concerns.

        Tested with the scores of the run and with equal low ones: own scores can be so low that a
        missing mask does not show, or so high that a finite fill value does not.
        """
        worst, is_seen = Worst(), False
        for site in filter(applies, self.sites):
            blocked = hidden(site)
            if not bool(blocked.any()):
                continue
            is_seen = True
            if not site.every_query:
                blocked = blocked & site.query_real[:, None, :, None]
            for weights in (site.weights, site.weigh(LOW)):
                if weights is None:
                    continue
                worst.see(weights.abs().masked_fill(~blocked, 0.0), site.at)
        return worst if is_seen else None

    def row_sums(self) -> Worst | None:
        """The weights of every real query sum to 1."""
        worst = Worst()
        for site in self.sites:
            off = (site.weights.sum(-1) - 1).abs()
            worst.see(off.masked_fill(~site.query_real[:, None], 0.0), site.at)
        return worst if self.sites else None

    def open_cells(self) -> Worst | None:
        """Every key that a real query may attend to is open; the deviation is the share of those
        that are not."""
        worst = Worst()
        for site in self.sites:
            allowed = site.allowed
            closed = (allowed & ~site.visible).double()
            worst.see(closed * (closed.sum() / allowed.sum()), site.at)
        return worst if self.sites else None
