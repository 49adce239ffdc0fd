"""The induction circuit step by step, and the experiment that could refute it.

Two heads of different layers do it (Elhage et al. 2021): the **first** copies into every token's
stream which token stood before it; the **second** compares its own token with those copies, finds
the place before which the same token stood, and writes what stands there. If that is so, the second
must fail without the first. A trained model may have several first heads, so those that attend most
to the token before are silenced one more at a time, beside as many others as controls; and every
earlier head is silenced alone. Neither means anything for a second head that looks there no more
than the best head of a model with shuffled weights (`chance`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.analysis.circuits.behaviour import Looked, looked, places_of, strength
from explorer.analysis.circuits.chance import Chance, by_chance
from explorer.analysis.circuits.rows import Twice, own_sites, random_twice
from explorer.analysis.circuits.weights import head_weights, unembedding
from explorer.library import LoadedModel
from explorer.runs.run import run
from models.hooks import NO_EDITS, Edits

Tell = Callable[[int, int], object]
Place = tuple[int, int]
COUNTS, DRAWS = (1, 2, 3, 4, 6), 3
RIVALS = 19
"""Sets of earlier heads, as many as were silenced when half was lost, that must leave more: were
heads that look back no more special than others, none would take half 1 time in 20 at most."""
MOST_ALONE = 48
"""Earlier heads that are silenced alone: all of a small model; of a larger one those that attend
most to the token before, and as many others drawn at random."""


@dataclass(frozen=True, eq=False)
class Circuit:
    """Which head finds, which heads copy, and what remains of the first without the others.

    A place is (layer, head). `second` looks most to where the row goes on, `intact` is its score
    and `even` what attending evenly would give. `order` are the earlier heads, the one that attends
    most to the token before first; empty where the second is in the first layer. `together[i]` is
    the second's score with the first `counts[i]` of them silenced, `others[draw, i]` with as many
    drawn among the rest. `rivals` are the scores with other sets of `n_off` earlier heads silenced,
    drawn among all. `alone` [layer, head] is its score without that head only, and `lost` the
    change of ln p of the second half's tokens, in nats; NaN where that was not tried.

    `carried` is the pattern of the first of `order`, `before` the second's, and `after` the same
    without the `n_off` first heads, each the mean over all rows. `wrote` is how often what the
    second writes in the second half speaks most for the token that follows, among the row's tokens,
    and `guess` what chance would give; NaN without logits. `chance` is what the best head does on
    the same rows in copies with shuffled weights, `even_back` the share of the token before where
    attention is even.
    """

    given: Twice
    second: Place
    intact: float
    even: float
    even_back: float
    chance: Chance
    previous: Float[np.ndarray, "layer head"]
    order: tuple[Place, ...]
    counts: tuple[int, ...]
    together: Float[np.ndarray, " count"]
    others: Float[np.ndarray, "draw count"]
    rivals: Float[np.ndarray, " set"]
    alone: Float[np.ndarray, "layer head"]
    lost: Float[np.ndarray, "layer head"]
    before: Float[np.ndarray, "query key"]
    carried: Float[np.ndarray, "query key"] | None
    after: Float[np.ndarray, "query key"] | None
    wrote: float
    guess: float

    @property
    def chosen(self) -> int:
        """The index of the smallest count that takes half of what the second has over attending
        evenly; the last one where none does. Raises ValueError without an earlier head."""
        if not self.counts:
            raise ValueError("no head stands before the second one")
        half = (self.intact + self.even) / 2
        return next((at for at, left in enumerate(self.together) if left <= half), -1) % len(
            self.counts
        )

    @property
    def n_off(self) -> int:
        """How many heads that is; 0 without an earlier head."""
        return self.counts[self.chosen] if self.counts else 0

    @property
    def first_looks_back(self) -> Literal["clear", "slight", "none"]:
        """Whether the first of `order` is a previous-token head. Raises ValueError without one."""
        if not self.order:
            raise ValueError("no head stands before the second one")
        score = float(self.previous[self.order[0]])
        return strength("previous", score, self.even_back, self.chance)

    @property
    def stands_out(self) -> bool:
        """Whether the second looks to where the row goes on more than chance."""
        return self.intact > self.even and self.chance.beaten("induction", self.intact)

    @property
    def rate(self) -> float:
        """How often the rivals would leave more by chance, at most."""
        return 1 / (len(self.rivals) + 1)

    @property
    def depends(self) -> bool:
        """Whether the second loses half of what it has over attending evenly without these heads,
        and less than that without any other set of as many."""
        if not self.counts or not self.stands_out:
            return False
        half = (self.intact + self.even) / 2
        return bool(self.together[self.chosen] <= half < self.rivals.min())


def circuit(
    loaded: LoadedModel,
    found: Looked,
    given: Twice | None = None,
    chance: Chance | None = None,
    tell: Tell | None = None,
) -> Circuit:
    """Find the second head and silence earlier ones; `tell(done, total)` is told of passes.

    `found` is what `looked` says of the model as it is, `given` the rows to measure on, and
    `chance` what the best head does there by chance, where that is known. Raises ValueError as
    `rows`.
    """
    given = rows = random_twice(loaded) if given is None else given
    if chance is None:
        chance = by_chance(loaded, lambda copy: looked(copy, rows).scores, tell)
    intact = looked(loaded, given)
    second, previous = found.best("induction"), intact.scores["previous"]
    n_heads = previous.shape[1]
    earlier = [(layer, head) for layer in range(second[0]) for head in range(n_heads)]
    order = sorted(earlier, key=lambda at: -float(previous[at]))
    counts = tuple(count for count in COUNTS if 2 * count <= len(order))
    single = _to_try(order)
    sets = [[at] for at in single] + [order[:count] for count in counts]
    for draw in range(DRAWS):
        mixed = np.random.default_rng(draw)
        sets += [_drawn(order[count:], count, mixed) for count in counts]
    scores, lost = [], []

    def left(off: Sequence[Place]) -> tuple[float, float]:
        without = looked(loaded, rows, silenced(loaded, off))
        return float(without.scores["induction"][second]), without.second_half - intact.second_half

    for done, off in enumerate(sets):
        score, change = left(off)
        scores.append(score)
        lost.append(change)
        if tell is not None:
            tell(done + 1, len(sets))
    jointly = np.array(scores[len(single) :]).reshape(1 + DRAWS, len(counts))
    wrote, guess = copied(loaded, given, second)
    shown = Circuit(
        given=given,
        second=second,
        intact=float(intact.scores["induction"][second]),
        even=intact.even["induction"],
        even_back=intact.even["previous"],
        chance=chance,
        previous=previous,
        order=tuple(order),
        counts=counts,
        together=jointly[0],
        others=jointly[1:],
        rivals=np.array([]),
        alone=_placed(previous.shape, single, scores),
        lost=_placed(previous.shape, single, lost),
        before=_pattern(loaded, given, second),
        carried=_pattern(loaded, given, order[0]) if order else None,
        after=None,
        wrote=wrote,
        guess=guess,
    )
    if not counts:
        return shown
    after = _pattern(loaded, given, second, order[: shown.n_off])
    rivals = []
    others = _rivals(order, shown.n_off) if shown.stands_out else ()
    for done, heads in enumerate(others):
        rivals.append(left(heads)[0])
        if tell is not None:
            tell(done + 1, len(others))
    return replace(shown, after=after, rivals=np.array(rivals))


def _rivals(order: Sequence[Place], count: int) -> tuple[tuple[Place, ...], ...]:
    """Other sets of as many heads as the first `count`: RIVALS of them, or all that there are."""
    own = frozenset(order[:count])
    if comb(len(order), count) <= RIVALS + 1:
        return tuple(each for each in combinations(order, count) if frozenset(each) != own)
    draw = np.random.default_rng(DRAWS)
    found: dict[frozenset[Place], tuple[Place, ...]] = {}
    while len(found) < RIVALS:
        drawn = tuple(_drawn(order, count, draw))
        if frozenset(drawn) != own:
            found[frozenset(drawn)] = drawn
    return tuple(found.values())


def silenced(loaded: LoadedModel, heads: Sequence[Place]) -> Edits:
    """An edit: these heads of self-attention write nothing."""
    sites, edits = own_sites(loaded), NO_EDITS
    for layer in sorted({layer for layer, _ in heads}):
        own = [head for at, head in heads if at == layer]

        def change(z: Tensor, own: list[int] = own) -> Tensor:
            z = z.clone()
            z[:, own] = 0.0
            return z

        edits = edits.then(Edits({sites[layer].hook("z"): change}))
    return edits


def _to_try(order: Sequence[Place]) -> list[Place]:
    """Which earlier heads are silenced alone."""
    if len(order) <= MOST_ALONE:
        return sorted(order)
    half = MOST_ALONE // 2
    return sorted([*order[:half], *_drawn(order[half:], half, np.random.default_rng(0))])


def _drawn(places: Sequence[Place], count: int, draw: np.random.Generator) -> list[Place]:
    return [places[at] for at in draw.permutation(len(places))[:count].tolist()]


def _placed(
    shape: tuple[int, ...], places: Sequence[Place], values: Sequence[float]
) -> Float[np.ndarray, "layer head"]:
    found = np.full(shape, np.nan)
    for at, value in zip(places, values, strict=False):
        found[at] = value
    return found


def _pattern(
    loaded: LoadedModel, given: Twice, at: Place, off: Sequence[Place] = ()
) -> Float[np.ndarray, "query key"]:
    """One head's pattern, the mean over all rows, with these heads silenced."""
    hook = own_sites(loaded)[at[0]].hook("pattern")
    kept = run(loaded.model, given.rows, {hook}, silenced(loaded, off))[hook]
    found: np.ndarray = kept[:, at[1]].mean(0).numpy()
    return found


def copied(loaded: LoadedModel, given: Twice, at: Place) -> tuple[float, float]:
    """How often what a head writes, read by the unembedding, is largest for the token that follows
    among the different tokens of the row; and what chance would give. NaN without logits.
    """
    if not loaded.config.lm_head or loaded.model.predicts != "next":
        return float("nan"), float("nan")
    site = own_sites(loaded)[at[0]]
    z = run(loaded.model, given.rows, {site.hook("z")})[site.hook("z")][:, at[1]]
    written = torch.from_numpy(head_weights(loaded, site, at[1]).o) @ z.double().transpose(1, 2)
    out = torch.from_numpy(unembedding(loaded))
    queries = torch.from_numpy(places_of(given)["induction"][0])
    hits, guess, count = 0, 0.0, 0
    for row, tokens in zip(written, given.tokens, strict=True):
        kinds = tokens[given.start : given.start + given.n].unique()
        best = kinds[(out[kinds] @ row[:, queries]).argmax(0)]
        hits += int((best == tokens[queries + 1]).sum())
        guess += len(queries) / len(kinds)
        count += len(queries)
    return hits / count, guess / count
