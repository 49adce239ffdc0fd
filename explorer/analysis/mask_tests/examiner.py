"""Test a sentence: each method tests one property of the masks."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from explorer.analysis.mask_tests.placing import placed
from explorer.analysis.mask_tests.probe import LOW, Probe, stacked
from models.hooks import AttentionSite
from models.masks import window_mask
from models.rows import Rows, Stream

N_PADS = 2
TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-4}
"""Relative to the largest value of the tensor; 1e-2 in half precision."""


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


def _moved(after: Tensor, before: Tensor) -> Tensor:
    """[..., pos, feature] twice -> [..., pos]: the largest change relative to the largest value."""
    scale = before.abs().max().nan_to_num(nan=1.0, posinf=1.0).clamp(min=1.0)
    return ((after - before).abs() / scale).amax(-1)


class Examiner:
    """One sentence and a probe; each method tests one property."""

    def __init__(self, probe: Probe, src: tuple[int, ...], tgt: tuple[int, ...]) -> None:
        self.probe = probe
        self.config = probe.config
        self.sentence = (src, tgt)
        self.masks: dict[str, np.ndarray] = {}
        self.reach: dict[str, np.ndarray] = {}
        self._weights: dict[float | None, dict[str, Tensor]] = {}
        self._plain: dict[str, Tensor] | None = None
        # One row padded on the right, one on the left, with equal width. Never a batch of one, nor
        # only its first row: some bugs leave batch item 0 intact.
        self.padded = stacked(self.alone(right=N_PADS), self.alone(left=N_PADS))

    def alone(self, left: int = 0, right: int = 0) -> Rows:
        """The sentence as a batch of one."""
        return self.probe.batch_of([self.sentence], left, right)

    @property
    def plain(self) -> dict[str, Tensor]:
        """The run of the sentence alone, without padding: the reference for all comparisons."""
        if self._plain is None:
            self._plain = self.probe.run(self.alone())
        return self._plain

    @property
    def tolerance(self) -> float:
        precision = self.probe.precision or next(iter(self.plain.values())).dtype
        return TOLERANCES.get(precision, 1e-2)

    # Changed tokens.

    def future_leak(self) -> Worst:
        """Change each target token in turn: no earlier position may change, in any layer."""
        row, worst = self.alone(right=N_PADS), Worst()
        n_tgt = row.tgt.shape[1]
        self.reach["decoder"] = self._reach(row, "tgt", self.probe.outcome)
        after = self.probe.run(self.probe.with_changed(row, "tgt", [[key] for key in range(n_tgt)]))
        before_it = torch.ones(n_tgt, n_tgt).tril(-1).bool()  # [changed, pos]
        for name, tensor in after.items():
            if self.probe.stream(name) == "tgt":
                moved = _moved(tensor[1:], tensor[0]).masked_fill(~before_it, 0.0)
                worst.see(moved, lambda key, query, name=name: self._at(name, query, key))
        return worst

    def pad_content(self) -> Worst:
        """Replace the padding by words: no real position may change."""
        worst = Worst()
        for left in (0, N_PADS):
            row = self.alone(left=left, right=N_PADS - left)
            streams: tuple[Stream, ...] = ("tgt",) if row.src is None else ("src", "tgt")
            for stream in streams:
                pads = (~row.valid(stream)[0]).nonzero().flatten().tolist()
                after = self.probe.run(self.probe.with_changed(row, stream, [pads]))
                for name, tensor in after.items():
                    real = row.valid(self.probe.stream(name))[0]
                    moved = _moved(tensor[1], tensor[0]).masked_fill(~real, 0.0)
                    worst.see(
                        moved,
                        lambda query, name=name, left=left, pads=pads: self._at(
                            name, query, pads[0], left
                        ),
                    )
        if self.sentence[0]:
            row = self.alone(right=N_PADS)
            last = [name for name, site in self.probe.blocks.items() if site.stack == "encoder"][-1]
            self.reach["encoder"] = self._reach(row, "src", last)
            self.reach["cross"] = self._reach(row, "src", self.probe.outcome)
        return worst

    def _reach(self, row: Rows, stream: Stream, name: str) -> np.ndarray:
        """Bool [pos of the tensor, changed token]: whether the change reached that position."""
        n = row.valid(stream).shape[1]
        tensor = self.probe.run(self.probe.with_changed(row, stream, [[key] for key in range(n)]))
        return (_moved(tensor[name][1:], tensor[name][0]) > self.tolerance).T.numpy()

    # Padding, cache, prefix: equivalent computations.

    def padding(self, left: int, right: int) -> Worst:
        """Padded, the same numbers as alone."""
        worst = Worst()
        found = self.probe.run(self.probe.batch_of([self.sentence], left, right))
        self._compare(worst, {name: rows[0] for name, rows in found.items()}, self.plain, left)
        return worst

    def in_a_batch(self) -> Worst:
        """Batched with sentences of other lengths, the same numbers as alone, in every row."""
        worst, sentences = Worst(), self._mixed()
        found = self.probe.run(self.probe.batch_of(sentences))
        for row, sentence in enumerate(sentences):
            alone = self.probe.run(self.probe.batch_of([sentence]))
            self._compare(worst, {name: rows[row] for name, rows in found.items()}, alone)
        return worst

    def _compare(
        self, worst: Worst, found: dict[str, Tensor], alone: dict[str, Tensor], left: int = 0
    ) -> None:
        """One row of a batch, padded on the left by `left`, with the sentence alone."""
        for name, before in alone.items():
            after = found[name][left : left + before.shape[1]]
            worst.see(
                _moved(after, before[0]),
                lambda pos, name=name: self._at(name, pos + left, left=left),
            )

    def _mixed(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Sentences of different lengths where possible: this one, and it reversed, shorter or
        longer."""

        def turned(tokens: tuple[int, ...], which: int) -> tuple[int, ...]:
            n, room = len(tokens), self.config.n_ctx
            lengths = [other for other in (n - 1, n + 3, n + 1, n - 2) if 0 < other <= room]
            return (tokens[::-1] * 4)[: [*lengths, n, n][which]]

        src, tgt = self.sentence
        first, last = ((turned(src, which), turned(tgt, which)) for which in (0, 1))
        return [first, self.sentence, last]

    def cache(self) -> Worst:
        """With the cache, in steps of one token, several, and all: the same numbers as in one pass,
        with and without padding."""
        worst, outcome = Worst(), self.probe.outcome
        for left in (0, N_PADS):
            row = self.alone(left=left)
            whole = self.probe.run(row)[outcome][0, left:]
            n = row.tgt.shape[1]
            for sizes in ([1] * n, [n // 2, n - n // 2], [n]):
                if 0 in sizes:
                    continue
                moved = _moved(self.probe.stepwise(row, sizes)[0, left:], whole)
                worst.see(moved, lambda pos, left=left: self._at(outcome, pos + left, left=left))
        return worst

    # Recorded patterns against the actual output; positions against their formula.

    def mixing(self) -> Worst:
        """Recorded patterns times values equal each head's output in a run without recording."""
        worst = Worst()
        used = {site.hook(what) for site in self.probe.sites for what in ("v", "z")}
        shown = {site.hook("pattern") for site in self.probe.sites}
        ran = self.probe.record(self.padded, used.__contains__)
        patterns = self.probe.record(self.padded, shown.__contains__)
        for site in self.probe.sites:
            z, v = ran[site.hook("z")], ran[site.hook("v")]
            v = v.repeat_interleave(z.shape[1] // v.shape[1], dim=1)
            made = patterns[site.hook("pattern")].to(v.dtype) @ v
            # NaN in both violates other properties.
            off = (made - z).masked_fill(made.isnan() & z.isnan(), 0.0).abs().amax(-1)
            real = self.padded.valid(site.query_stream)[:, None]
            scale = v.abs().max().nan_to_num(nan=1.0, posinf=1.0).clamp(min=1.0)
            worst.see(
                (off / scale).masked_fill(~real, 0.0),
                lambda layout, head, query, site=site: self._cell(site, layout, head, query),
            )
        return worst

    def positions(self) -> Worst:
        """What positions add, rotate or bias matches the formula that the config names."""
        worst = Worst()
        for each in placed(self.probe, self.alone()):
            moved = _moved(each.found, each.expected)
            worst.see(
                moved,
                lambda *at, each=each: (
                    Location(each.hook, query=at[-1], stack=each.stack)
                    if each.site is None
                    else self._cell(each.site, 0, at[1], at[-1])
                ),
            )
        return worst

    def prefix(self) -> Worst:
        """A prefix of the target alone: the same logits as in one pass over the whole target."""
        worst, outcome, (src, tgt) = Worst(), self.probe.outcome, self.sentence
        for length in range(1, len(tgt)):
            found = self.probe.run(self.probe.batch_of([(src, tgt[:length])]))
            whole = self.plain[outcome][0, :length]
            worst.see(_moved(found[outcome][0], whole), lambda pos: self._at(outcome, pos))
        return worst

    # Recovered weights.

    def weights(self, site: str, level: float | None = None) -> Tensor:
        """The weights [layout, head, query, key] of a site; layouts: PADs right, PADs left.

        With a `level`, they are those of equal scores, as in `Probe.weights`.
        """
        if level not in self._weights:
            self._weights[level] = {
                each.name: self.probe.weights(each, self.padded, level) for each in self.probe.sites
            }
        return self._weights[level][site]

    def visible(self, site: str) -> Tensor:
        """The weights of a site if q·k is 0 everywhere: 0 only where masked."""
        weights = self.weights(site, 0.0)
        self.masks = {
            name: (of_site[0] != 0).numpy() for name, of_site in self._weights[0.0].items()
        }
        return weights

    def future_mass(self) -> Worst:
        """No weight above the diagonal of decoder self-attention, in any row."""
        return self._mass("self", lambda site: _future(self.weights(site.name)), "decoder")

    def pad_mass(self) -> Worst:
        """No weight on PAD keys in self-attention, in any row."""
        return self._mass("self", self._pad_keys)

    def cross_mask(self) -> Worst:
        """No weight on PADs of the source in cross-attention, in any row."""
        return self._mass("cross", self._pad_keys)

    def _pad_keys(self, site: AttentionSite) -> Tensor:
        return ~self.padded.valid(site.key_stream)[:, None, None, :]

    def _mass(
        self, kind: str, blocked_keys: Callable[[AttentionSite], Tensor], stack: str = ""
    ) -> Worst:
        """The largest weight that a row of these sites puts on keys that should be hidden.

        Tested with the model's own scores and with equal low ones: own scores can be so low that a
        missing mask does not show, or so high that a finite fill value does not.
        """
        worst = Worst()
        for site in self.probe.sites:
            if site.kind != kind or stack not in ("", site.stack):
                continue
            for weights in (self.weights(site.name), self.weights(site.name, LOW)):
                hidden = weights.abs() * blocked_keys(site)  # [layout, head, query, key]
                worst.see(
                    hidden.sum(-1),
                    lambda layout, head, query, site=site, hidden=hidden: self._cell(
                        site, layout, head, query, int(hidden[layout, head, query].argmax())
                    ),
                )
        return worst

    def row_sums(self) -> Worst:
        """The weights of every real query sum to 1."""
        worst = Worst()
        for site in self.probe.sites:
            off = (self.weights(site.name).sum(-1) - 1).abs()
            real = self.padded.valid(site.query_stream)[:, None]
            worst.see(
                off.masked_fill(~real, 0.0),
                lambda layout, head, query, site=site: self._cell(site, layout, head, query),
            )
        return worst

    def open_cells(self) -> Worst:
        """Every key that a real query may attend to has a nonzero weight if q·k is 0; the deviation
        is the share of cells at 0."""
        worst = Worst()
        for site in self.probe.sites:
            weights = self.visible(site.name)
            queries = self.padded.valid(site.query_stream)[:, None, :, None]
            keys = self.padded.valid(site.key_stream)[:, None, None, :]
            allowed = (queries & keys).expand(weights.shape)
            if site.kind == "self" and site.stack == "decoder":
                allowed = allowed & ~_future(weights)
            if site.window is not None:
                allowed = allowed & window_mask(weights.shape[-2], window=site.window)
            closed = (allowed & (weights == 0)).double()
            share = closed / allowed.sum()
            worst.see(
                share.sum().expand(1),
                lambda _, site=site, closed=closed: self._cell(
                    site, *map(int, np.unravel_index(int(closed.argmax()), closed.shape))
                ),
            )
        return worst

    # Locations.

    def _at(self, name: str, query: int, key: int | None = None, left: int = 0) -> Location:
        site = self.probe.blocks.get(name)
        if site is None:
            return Location(name, None, None, query, key, left)
        return Location(name, site.layer, None, query, key, left, site.stack)

    def _cell(
        self, site: AttentionSite, layout: int, head: int, query: int, key: int | None = None
    ) -> Location:
        left = N_PADS if layout else 0
        return Location(site.name, site.layer, head, query, key, left, site.stack)


def _future(weights: Tensor) -> Tensor:
    """Bool [query, key] of weights [..., query, key]: True where the key comes after the query."""
    return torch.ones(weights.shape[-2:]).triu(1).bool()
