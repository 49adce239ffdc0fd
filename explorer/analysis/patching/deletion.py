"""Deletion test of a ranking: remove the highest-ranked words first, and measure the drop.

The model is run again after every removed word. The earlier the probability of the written word
falls, the larger the area over its curve. Samek et al. 2017, "Evaluating the Visualization of What
a Deep Neural Network Has Learned", eq. 12. Random orders are the control: a ranking is better than
chance if it beats all of them. A random ranking does so with probability 1 / (N_RANDOM + 1) at
most, and one of several with as many times that (Bonferroni).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import factorial
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float

from explorer.analysis.patching.patches import Progress
from explorer.analysis.patching.words import Explained, hidden, no_word, replacing, stack_of
from explorer.library import LoadedModel
from explorer.runs.rerun import edits_of, rows_of
from explorer.runs.trace import Trace
from models.hooks import Change, Edits, visiting

How = Literal["hide", "replace"]
HOW: tuple[How, ...] = get_args(How)
N_RANDOM = 99
"""Number of random orders in the control."""
MARGIN = 0.25
"""Standard deviations of the random areas by which a ranking must beat them all. Beating them
without this margin would suffice for `Deletion.rate`, on average."""
MOST_STEPS = 10
"""Points of a curve: in a longer text several words are removed at once."""
MAX_ROWS = 32


@dataclass(frozen=True, eq=False)
class DeletionCurve:
    """The probability of the written word, from all words down to none. `order` are indices of the
    words, first removed first."""

    order: tuple[int, ...]
    probs: Float[np.ndarray, " step"]

    @property
    def area(self) -> float:
        """The area over the curve: how far the probability has fallen, averaged over the steps from
        the first word on."""
        return float((self.probs[0] - self.probs[1:]).mean())


@dataclass(frozen=True, eq=False)
class Deletion:
    """The curves of some rankings and of random orders; `steps` are numbers of removed words."""

    steps: tuple[int, ...]
    curves: dict[str, DeletionCurve]
    random: tuple[DeletionCurve, ...]

    @property
    def chance(self) -> tuple[float, float]:
        """Mean and standard deviation of the area over the curves of the random orders."""
        areas = np.array([curve.area for curve in self.random])
        return float(areas.mean()), float(areas.std())

    def beaten(self, name: str) -> int:
        """The number of random orders that a ranking beats."""
        return sum(self.curves[name].area > curve.area for curve in self.random)

    @property
    def better(self) -> tuple[str, ...]:
        """The rankings that beat every random order by at least MARGIN."""
        most = max(curve.area for curve in self.random) + MARGIN * self.chance[1]
        return tuple(name for name, curve in self.curves.items() if curve.area > most)

    @property
    def rate(self) -> float:
        """An upper bound on the rate at which one of as many random rankings beats every order."""
        return min(1.0, len(self.curves) / (len(self.random) + 1))

    @property
    def n_orders(self) -> int:
        """The number of possible orders; if too few, no ranking can be significant."""
        return factorial(len(self.random[0].order))


def delete(
    loaded: LoadedModel,
    traced: Trace,
    asked: Explained,
    rankings: Mapping[str, Float[np.ndarray, " word"]],
    how: How,
    progress: Progress | None = None,
) -> Deletion:
    """Remove words in the order of each ranking, largest score first.

    hide: no query may attend to the words any more; replace: their embedding becomes a neutral one
    (`words.no_word`). Equal sets of words are run once. Raises ValueError if there is no word.
    """
    n_words = len(asked.words)
    if not n_words:
        raise ValueError("there is no word to delete")
    points = np.linspace(0, n_words, min(n_words, MOST_STEPS) + 1)
    steps = tuple(int(point) for point in np.unique(points.round()))
    orders = {
        name: tuple(np.argsort(-scores, kind="stable").tolist())
        for name, scores in rankings.items()
    }
    random = np.random.default_rng(0)
    drawn = [tuple(random.permutation(n_words).tolist()) for _ in range(N_RANDOM)]
    sets = list(
        dict.fromkeys(
            frozenset(order[:step]) for order in (*orders.values(), *drawn) for step in steps
        )
    )
    probs = dict(zip(sets, _without(loaded, traced, asked, sets, how, progress), strict=True))

    def curve(order: tuple[int, ...]) -> DeletionCurve:
        return DeletionCurve(order, np.array([probs[frozenset(order[:step])] for step in steps]))

    curves = {name: curve(order) for name, order in orders.items()}
    return Deletion(steps, curves, tuple(map(curve, drawn)))


def _without(
    loaded: LoadedModel,
    traced: Trace,
    asked: Explained,
    sets: Sequence[frozenset[int]],
    how: How,
    progress: Progress | None,
) -> list[float]:
    """The probability of the written word without each set of words."""
    found: list[float] = []
    n_tokens = len(traced.src_tokens) + len(traced.tgt_tokens)
    size = max(1, min(MAX_ROWS, 2048 // n_tokens))
    for start in range(0, len(sets), size):
        batch = [[asked.words[word] for word in each] for each in sets[start : start + size]]
        changes: dict[str, Change] = hidden(loaded, asked.stream, batch)
        if how == "replace":
            vector = no_word(loaded, asked.stream)
            hook = stack_of(loaded, asked.stream).hook("embed")
            changes = {hook: partial(replacing, words=batch, vector=vector)}
        rows = rows_of(traced).select([0] * len(batch))
        with torch.inference_mode(), visiting(edits_of(traced).then(Edits(changes))):
            logits = loaded.model.read(rows)[:, asked.position].double()
        found += logits.softmax(-1)[:, asked.token].tolist()
        if progress is not None:
            progress(len(found), len(sets))
    return found
