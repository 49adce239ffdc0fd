"""The induction circuit step by step, and the experiment that could refute it.

Two heads of different layers do it (Elhage et al. 2021): the **first** one copies into every
token's stream which token stood before it; the **second** one compares its own token with those
copies, finds the place where the same token stood before this one, and writes what stands there.
If that is so, the second must fail without the first. So every earlier head is silenced alone, and
what the second then still looks at is measured: all the others are the controls.
"""

from collections.abc import Callable
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
MOST_TRIED = 48
"""Earlier heads that are silenced: all of a small model; of a larger one those that attend most to
the token before, and as many others drawn at random, as controls."""


@dataclass(frozen=True, eq=False)
class Circuit:
    """Which head finds, which head it cannot do without, and what remains.

    `second` and `first` are (layer, head); `first` is the earlier head whose silencing costs the
    second most, None where the second is in the first layer. `without` [layer, head] is the
    second's induction score with that head off, NaN where it was not tried; `intact` the score as
    it is. `lost` [layer, head] is the change of ln p of the second half's tokens, in nats.
    `before`, `after` are the second's patterns of the first row with all heads, and without
    `first`; `carried` is the pattern of `first`. `wrote` is how often what the second head writes
    at the second half speaks most for the token that follows, among the row's tokens; `guess` what
    chance would give.
    """

    given: Twice
    second: tuple[int, int]
    first: tuple[int, int] | None
    intact: float
    even: float
    without: Float[np.ndarray, "layer head"]
    lost: Float[np.ndarray, "layer head"]
    before: Float[np.ndarray, "query key"]
    after: Float[np.ndarray, "query key"] | None
    carried: Float[np.ndarray, "query key"] | None
    previous: Float[np.ndarray, "layer head"]
    wrote: float
    guess: float

    @property
    def others(self) -> Float[np.ndarray, " other"]:
        """The second's scores without each of the other heads that were tried, the controls."""
        keep = np.isfinite(self.without)
        if self.first is not None:
            keep[self.first] = False
        return self.without[keep]


def circuit(
    loaded: LoadedModel,
    found: Looked,
    given: Twice | None = None,
    tell: Tell | None = None,
) -> Circuit:
    """Silence each earlier head in turn; `tell(done, total)` is told of them.

    `found` is what `looked` says of the model as it is, `given` the rows to measure on. Raises
    ValueError as `rows`.
    """
    given = random_twice(loaded) if given is None else given
    sites = own_sites(loaded)
    second = found.best("induction")
    intact = looked(loaded, given)
    shape = intact.scores["induction"].shape
    without, lost = np.full(shape, np.nan), np.full(shape, np.nan)
    tried = _tried(found, second[0])
    for done, (layer, head) in enumerate(tried):
        alone = looked(loaded, given, silenced(sites[layer].hook("z"), head))
        without[layer, head] = alone.scores["induction"][second]
        lost[layer, head] = alone.second_half - intact.second_half
        if tell is not None:
            tell(done + 1, len(tried))
    first = None
    if tried:
        layer, head = np.unravel_index(np.nan_to_num(without, nan=np.inf).argmin(), shape)
        first = int(layer), int(head)
    own = sites[second[0]].hook("pattern")
    before = run(loaded.model, given.rows, {own})[own][0, second[1]].numpy()
    after = carried = None
    if first is not None:
        hook = sites[first[0]].hook("pattern")
        carried = run(loaded.model, given.rows, {hook})[hook][0, first[1]].numpy()
        off = silenced(sites[first[0]].hook("z"), first[1])
        after = run(loaded.model, given.rows, {own}, off)[own][0, second[1]].numpy()
    wrote, guess = copied(loaded, given, second)
    return Circuit(
        given=given,
        second=second,
        first=first,
        intact=float(intact.scores["induction"][second]),
        even=intact.even["induction"],
        without=without,
        lost=lost,
        before=before,
        after=after,
        carried=carried,
        previous=intact.scores["previous"],
        wrote=wrote,
        guess=guess,
    )


def silenced(hook: str, head: int) -> Edits:
    """An edit: this head writes nothing."""

    def change(z: Tensor) -> Tensor:
        z = z.clone()
        z[:, head] = 0.0
        return z

    return Edits({hook: change})


def _tried(found: Looked, layers: int) -> list[tuple[int, int]]:
    """The heads of the first `layers` layers, or those to try of too many."""
    n_heads = found.scores["previous"].shape[1]
    heads = [(layer, head) for layer in range(layers) for head in range(n_heads)]
    if len(heads) <= MOST_TRIED:
        return heads
    order = sorted(heads, key=lambda at: -float(found.scores["previous"][at]))
    half = MOST_TRIED // 2
    others = np.random.default_rng(0).permutation(len(order) - half)[:half] + half
    return sorted([*order[:half], *(order[at] for at in others.tolist())])


def copied(loaded: LoadedModel, given: Twice, at: tuple[int, int]) -> tuple[float, float]:
    """How often what a head writes, read by the unembedding, is largest for the token that follows
    among the different tokens of the row; and what chance would give. NaN without logits.
    """
    if not loaded.config.lm_head or loaded.model.predicts != "next":
        return float("nan"), float("nan")
    site = own_sites(loaded)[at[0]]
    z = run(loaded.model, given.rows, {site.hook("z")}, NO_EDITS)[site.hook("z")][:, at[1]]
    written = torch.from_numpy(head_weights(loaded, site, at[1]).o) @ z.double().transpose(1, 2)
    out = torch.from_numpy(unembedding(loaded))
    queries = torch.from_numpy(places_of(given)["induction"][0])
    hits, guess, count = 0, 0.0, 0
    for row, tokens in zip(written, given.tokens, strict=True):
        half = tokens[given.start : given.start + given.n]
        kinds = half.unique()
        best = kinds[(out[kinds] @ row[:, queries]).argmax(0)]
        hits += int((best == tokens[queries + 1]).sum())
        guess += len(queries) / len(kinds)
        count += len(queries)
    return hits / count, guess / count
