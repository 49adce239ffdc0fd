"""Test a sentence: each method of `Examiner` tests one property of the masks of a callable."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from explorer.analysis.mask_tests.sites import Location, Site, Worst
from explorer.once import once
from models.hooks import AttentionSite
from models.rows import Rows, Stream

N_PADS = 2
COPIES = 3
"""Rows of a padded batch: some bugs leave the first row intact, others all but the middle one."""
LOW = -1e30
"""A score far below every fill value in use, except the lowest number of a dtype."""
MARGIN = 100
"""A change that ends at once, from this many times rounding error, is cut off; a smaller one may
have faded."""
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
    "no_hooks",
    "too_weak",
    "unread",
]
"""Why a property is not tested; words at `certify.left_out`."""
Sentence = tuple[tuple[int, ...], tuple[int, ...]]
"""Ids of source (empty without one) and target."""


class UntestableError(ValueError):
    """The output does not depend on the ids, so every property would hold trivially."""


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
    causal = True
    window: int | None = None
    """How many tokens, itself included, a target token must at least reach in some layer; None:
    all."""
    tolerance: float
    blocks: Mapping[str, AttentionSite] = {}
    """The blocks whose output a run returns too, by the name of the output."""

    def __init__(self, src: Sequence[int], tgt: Sequence[int]) -> None:
        self.sentence: Sentence = (tuple(src), tuple(tgt))
        self.reach: dict[str, np.ndarray] = {}  # see `Certificate`
        self._changes: dict[Stream, dict[str, Tensor]] = {}

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

    def one_by_one(self, stream: Stream) -> Rows:
        """The padded sentence, and below it a copy per token of a stream with that one changed."""
        row = self.batch([self.sentence], right=self.pads_changed)
        return self.changed(row, stream, [[key] for key in range(row.tokens(stream).shape[1])])

    def changes(self, stream: Stream) -> dict[str, Tensor]:
        """[changed token, pos]: how much each changed token changes each output."""
        if stream not in self._changes:
            after = self.run(self.one_by_one(stream))
            self._changes[stream] = {
                name: self.moved(tensor[1:], tensor[:1]) for name, tensor in after.items()
            }
        return self._changes[stream]

    def open_changes(self, stream: Stream) -> Tensor:
        """The same at the output, where possible with no score so low that its weight rounds."""
        return self.changes(stream)[self.outcome]

    def future_leak(self) -> Worst | None:
        """Change each target token in turn: no earlier position may change, in any layer."""
        worst = Worst()
        for name, moved in self.changes("tgt").items():
            if self.stream(name) == "tgt":
                if self.refuses_constants and not bool((moved != 0).any()):
                    raise UntestableError("the logits do not depend on the target ids")
                worst.see(moved.tril(-1), lambda key, query, name=name: self._at(name, query, key))
        return worst

    def needle(self) -> Worst | None:
        """Change each token in turn: the output must change in the token's own row, and at every
        distance up to the window.

        A distance is counted from the changed token to the output, or in the source to its last
        token. The deviation is the share of distances without any change.
        """
        worst, faded, last = Worst(), False, len(self.sentence[1]) - 1
        for stream in self.streams:
            n = len(self.sentence[0 if stream == "src" else 1])
            moved = self.open_changes(stream)[:n, : last + 1]
            if stream == "src":
                most = moved.amax(1).flip(0)
            else:
                ways = moved if self.causal else torch.maximum(moved, moved.T)
                near = range(1, min(n, self.window or n))
                # No mask and no score can hide a token from its own row.
                own = ways.diagonal().amin()
                most = torch.stack([own, *(ways.diagonal(far).amax() for far in near)])
            rounding = 8 * torch.finfo(moved.dtype).eps
            silent = ~(most > rounding)  # includes NaN
            if not bool(silent.any()):
                continue
            first = int(silent.int().argmax())
            if (float(most[first - 1]) if first else 1.0) < MARGIN * rounding:
                faded = True
                continue
            at = (last, n - 1 - first)
            if stream == "tgt":
                key = int(moved.diagonal(first).argmin())
                at = (key + first, key)
            share = silent.double().mean()[None]
            worst.see(share, lambda _, at=at: self._at(self.outcome, *at))
        return None if faded and not worst.deviation else worst

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
