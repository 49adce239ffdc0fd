"""The induction circuit step by step, and the experiment that could refute it.

Two heads of different layers do it (Elhage et al. 2021): the **first** copies into every token's
stream which token stood before it; the **second** compares its own token with those copies, finds
the place before which the same token stood, and writes what stands there. If that is so, the second
must fail without the first. A trained model may have several first heads, so those that attend most
to the token before are silenced one more at a time, beside as many others as controls; and every
earlier head is silenced alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.analysis.circuits.behaviour import Looked, looked, places_of
from explorer.analysis.circuits.rows import Twice, own_sites, random_twice
from explorer.analysis.circuits.weights import head_weights, unembedding
from explorer.library import LoadedModel
from explorer.runs.run import run
from models.hooks import NO_EDITS, Edits

Tell = Callable[[int, int], object]
Place = tuple[int, int]
COUNTS, DRAWS = (1, 2, 3, 4, 6), 3
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
    drawn among the rest. `alone` [layer, head] is its score without that head only, and `lost` the
    change of ln p of the second half's tokens, in nats; NaN where that was not tried.

    `carried` is the pattern of the first of `order`, `before` the second's, and `after` the same
    without the `n_off` first heads, each the mean over all rows. `wrote` is how often what the
    second writes in the second half speaks most for the token that follows, among the row's tokens,
    and `guess` what chance would give; NaN without logits.
    """

    given: Twice
    second: Place
    intact: float
    even: float
    previous: Float[np.ndarray, "layer head"]
    order: tuple[Place, ...]
    counts: tuple[int, ...]
    together: Float[np.ndarray, " count"]
    others: Float[np.ndarray, "draw count"]
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
    def depends(self) -> bool:
        """Whether the second loses half of what it has over attending evenly without these heads,
        and less than that, on average, without as many others."""
        if not self.counts or self.intact <= self.even:
            return False
        half, at = (self.intact + self.even) / 2, self.chosen
        return bool(self.together[at] <= half < self.others[:, at].mean())


def circuit(
    loaded: LoadedModel,
    found: Looked,
    given: Twice | None = None,
    tell: Tell | None = None,
) -> Circuit:
    """Find the second head and silence earlier ones; `tell(done, total)` is told of passes.

    `found` is what `looked` says of the model as it is, `given` the rows to measure on. Raises
    ValueError as `rows`.
    """
    given = random_twice(loaded) if given is None else given
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
    for done, off in enumerate(sets):
        without = looked(loaded, given, silenced(loaded, off))
        scores.append(float(without.scores["induction"][second]))
        lost.append(without.second_half - intact.second_half)
        if tell is not None:
            tell(done + 1, len(sets))
    jointly = np.array(scores[len(single) :]).reshape(1 + DRAWS, len(counts))
    wrote, guess = copied(loaded, given, second)
    shown = Circuit(
        given=given,
        second=second,
        intact=float(intact.scores["induction"][second]),
        even=intact.even["induction"],
        previous=previous,
        order=tuple(order),
        counts=counts,
        together=jointly[0],
        others=jointly[1:],
        alone=_placed(previous.shape, single, scores),
        lost=_placed(previous.shape, single, lost),
        before=_pattern(loaded, given, second),
        carried=_pattern(loaded, given, order[0]) if order else None,
        after=None,
        wrote=wrote,
        guess=guess,
    )
    after = _pattern(loaded, given, second, order[: shown.n_off]) if counts else None
    return Circuit(**{**vars(shown), "after": after})


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
