"""Head types on synthetic sequences: previous-token, duplicate-token, induction, first-token heads.

previous   attends from each token to the one before it
duplicate  attends from a token's second occurrence to its first
induction  attends from a token's second occurrence to the token that followed its first
           (Olsson et al. 2022, "In-context Learning and Induction Heads")
first      attends to the first token of the sequence, where heads rest without a target
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float

from explorer.analysis.circuits.chance import Chance, by_chance
from explorer.analysis.circuits.rows import Twice, own_sites, random_twice
from explorer.analysis.roles import AttentionRows
from explorer.library import LoadedModel
from explorer.runs.passes import Steps
from explorer.runs.run import run
from models.hooks import LOGITS, NO_EDITS, AttentionSite, Edits

Behaviour = Literal["induction", "previous", "duplicate", "first"]
BEHAVIOURS: tuple[Behaviour, ...] = get_args(Behaviour)
Heads = Float[np.ndarray, "layer head"]
CLEAR, TIMES = 0.4, 2.0
"""A head above chance has a type slightly; clearly, from this share and from this multiple of the
uniform baseline on."""
Strength = Literal["clear", "slight", "none", "untested"]


@dataclass(frozen=True, eq=False)
class HeadScores:
    """Scores of the heads on repeated random tokens: by type, [layer, head], means over rows.

    `even` is the uniform baseline over all allowed tokens. `first_half` and `second_half` are the
    mean ln p per token, `copied` is the share of the second half that the model ranks first; NaN
    for a model that does not predict the next token.
    """

    sites: tuple[AttentionSite, ...]
    scores: dict[Behaviour, Heads]
    even: dict[Behaviour, float]
    n: int
    n_rows: int
    first_half: float
    second_half: float
    copied: float

    def best(self, behaviour: Behaviour) -> tuple[int, int]:
        """Layer and head with the highest score; the first one on ties."""
        scores = self.scores[behaviour]
        layer, head = np.unravel_index(np.nan_to_num(scores, nan=-1).argmax(), scores.shape)
        return int(layer), int(head)

    def strength(self, behaviour: Behaviour, chance: Chance | None) -> Strength:
        """Whether the best head deserves the name; "untested" without `chance`."""
        if chance is None:
            return "untested"
        score = float(self.scores[behaviour].max())
        if not chance.beaten(behaviour, score):
            return "none"
        return "clear" if score >= max(CLEAR, TIMES * self.even[behaviour]) else "slight"

    def clearest(self, chance: Chance | None) -> Behaviour:
        """The first type that some head has clearly, else slightly; else the first type."""
        order = ("clear", "slight", "none", "untested")
        return min(self.scores, key=lambda name: order.index(self.strength(name, chance)))


def behaviour(loaded: LoadedModel) -> HeadScores:
    """Test every head on repeated random tokens. Raises ValueError as `rows`."""
    return looked(loaded, random_twice(loaded))


def best_by_chance(loaded: LoadedModel) -> Steps[Chance]:
    """The best head of each type in copies with shuffled weights, as `by_chance`."""
    repeats = random_twice(loaded)
    return (yield from by_chance(loaded, lambda copy: attention_scores(copy, repeats)))


def attention_scores(loaded: LoadedModel, twice: Twice) -> dict[Behaviour, Heads]:
    """The attention scores alone, of a model on the CPU: without logits, a third of a pass."""
    return _scores(loaded, twice, run(loaded.model, twice.rows, _hooks(loaded)))[0]


def _hooks(loaded: LoadedModel) -> set[str]:
    return {site.hook(name) for site in own_sites(loaded) for name in ("pattern", "mask")}


def _scores(
    loaded: LoadedModel, twice: Twice, kept: Mapping[str, torch.Tensor]
) -> tuple[dict[Behaviour, Heads], dict[Behaviour, float]]:
    """The mean weight on the places of each type, and the uniform baseline in the first layer."""
    scores: dict[Behaviour, list[np.ndarray]] = {}
    even: dict[Behaviour, float] = {}
    for site in own_sites(loaded):
        pattern, mask = kept[site.hook("pattern")].double(), kept[site.hook("mask")][:, :1]
        rows = AttentionRows.of(pattern, mask, mask.any(-1))
        for name, (queries, keys) in places_of(twice).items():
            cells = torch.zeros(pattern.shape[2:], dtype=torch.bool)
            cells[queries, keys] = True
            share, count = rows.on(cells[None, None]), len(pattern) * len(queries)
            scores.setdefault(name, []).append((share.weight.sum(0) / count).numpy())
            even.setdefault(name, float(share.chance) / count)
    return {name: np.stack(layers) for name, layers in scores.items()}, even


def looked(loaded: LoadedModel, twice: Twice, edits: Edits = NO_EDITS) -> HeadScores:
    """The attention scores on these rows."""
    kept = run(loaded.model, twice.rows, {*_hooks(loaded), LOGITS}, edits)
    scores, even = _scores(loaded, twice, kept)
    first, second, copied = _written(loaded, twice, kept[LOGITS])
    return HeadScores(
        sites=own_sites(loaded),
        scores=scores,
        even=even,
        n=twice.n,
        n_rows=len(twice.tokens),
        first_half=first,
        second_half=second,
        copied=copied,
    )


def places_of(twice: Twice) -> dict[Behaviour, tuple[np.ndarray, np.ndarray]]:
    """For each type, the query positions and the key position to attend to for each of them."""
    n, start = twice.n, twice.start
    everywhere = np.arange(1, start + 2 * n)
    again = np.arange(start + n, start + 2 * n)
    going_on = again[:-1] if n > 1 else again  # the last token's follower starts the next row
    return {
        "induction": (going_on, going_on - n + 1),
        "previous": (everywhere, everywhere - 1),
        "duplicate": (again, again - n),
        "first": (everywhere, np.zeros_like(everywhere)),
    }


def _written(loaded: LoadedModel, twice: Twice, logits: torch.Tensor) -> tuple[float, float, float]:
    n, start, tokens = twice.n, twice.start, twice.tokens
    if not loaded.config.generates or n < 2:
        return float("nan"), float("nan"), float("nan")
    logprobs = logits[:, :-1].log_softmax(-1)
    chosen = logprobs.gather(-1, tokens[:, 1:, None])[..., 0].numpy()
    at = slice(start + n, start + 2 * n - 1)  # positions after the first repeated token
    top = logprobs[:, at].argmax(-1) == tokens[:, start + n + 1 : start + 2 * n]
    return (
        float(chosen[:, start : start + n - 1].mean()),
        float(chosen[:, at].mean()),
        float(top.float().mean()),
    )
