"""What ablating the aligning heads costs a translation, compared with ablating random heads.

Ablating any head causes some loss, so the control is essential. Its heads are drawn from all heads:
if the aligning ones were no more important than others, they would be one more draw. Michel et al.
2019, "Are Sixteen Heads Really Better than One?", remove heads in the order of a score in the same
way.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from explorer.analysis.alignment.reading import AT_ONCE, Pair, Tell, cross_sites
from explorer.library import LoadedModel
from explorer.numerics import beats
from explorer.runs.edits import HeadOff
from explorer.runs.inputs import given_tokens, target_row, target_tokens
from explorer.runs.interventions import edit_functions
from explorer.runs.run import run
from models.hooks import LOGITS
from models.rows import Rows

COUNTS = (1, 2, 4, 8, 12)
DRAWS, FEW = 19, 5
"""Random sets of the largest number of heads, and of each smaller one."""


@dataclass(frozen=True, eq=False)
class HeadRemoval:
    """Mean ln p per generated token over all pairs.

    `whole`: the unmodified model; `aligning`: the first `counts` heads of the ranking ablated;
    `others`: as many random heads ablated, DRAWS times for the last count.
    """

    counts: tuple[int, ...]
    n_heads: int
    whole: float
    aligning: Float[np.ndarray, " count"]
    others: tuple[Float[np.ndarray, " draw"], ...]

    @property
    def stands_out(self) -> bool:
        """Whether the aligning heads cost clearly more than every random set of the last count."""
        return beats(-float(self.aligning[-1]), -self.others[-1])


def ablations(loaded: LoadedModel, heads: Sequence[int]) -> tuple[HeadOff, ...]:
    """The edits that ablate these cross-attention matrices, indexed in the order of `heads_of`."""
    names = [(site.name, head) for site in cross_sites(loaded) for head in range(site.n_heads)]
    return tuple(HeadOff(*names[each]) for each in heads)


def drawn(n_heads: int, count: int, seed: int, without: Sequence[int] = ()) -> list[int]:
    """Draw `count` heads at random, none of them in `without`."""
    others = [head for head in range(n_heads) if head not in set(without)]
    return sorted(np.random.default_rng(seed).permutation(others)[:count].tolist())


def counts_for(n_heads: int) -> tuple[int, ...]:
    """How many heads to ablate: at most half, so that as many others are left to draw."""
    return tuple(count for count in COUNTS if count <= n_heads // 2)


def removal(
    loaded: LoadedModel, pairs: Sequence[Pair], order: Sequence[int], tell: Tell | None = None
) -> HeadRemoval:
    """Ablate the first heads of `order` (all heads, best aligning first), and random ones.

    `tell(done, total)` is called with counts of passes over all pairs. Raises InputProblem, and
    ValueError if there is only one head, which leaves no control.
    """
    n_heads = len(order)
    counts = counts_for(n_heads)
    if not counts:
        raise ValueError("there is no second head to compare with")
    settings: list[list[int]] = [[], *(list(order[:count]) for count in counts)]
    draws = [FEW] * (len(counts) - 1) + [DRAWS]
    for count, n_draws in zip(counts, draws, strict=True):
        settings += [drawn(n_heads, count, seed) for seed in range(n_draws)]
    found = []
    for done, off in enumerate(settings):
        found.append(mean_logprob(loaded, pairs, off))
        if tell is not None:
            tell(done + 1, len(settings))
    whole, aligning, *others = np.split(found, np.cumsum([1, len(counts), *draws])[:-1])
    return HeadRemoval(counts, n_heads, float(whole[0]), aligning, tuple(others))


def mean_logprob(loaded: LoadedModel, pairs: Sequence[Pair], off: Sequence[int] = ()) -> float:
    """Mean ln p per token of the translations, end token included, under teacher forcing, with the
    heads in `off` ablated. Raises InputProblem.
    """
    silence = edit_functions(loaded.sites, ablations(loaded, off))
    total, count = 0.0, 0
    for start in range(0, len(pairs), AT_ONCE):
        batch = pairs[start : start + AT_ONCE]
        src = [given_tokens(loaded, source) for source, _ in batch]
        tgt = [target_row(loaded, target_tokens(loaded, target)) for _, target in batch]
        logits = run(loaded.model, Rows.of(tgt, src, loaded.marks), {LOGITS}, silence)[LOGITS]
        end = () if loaded.marks.end is None else (loaded.marks.end,)
        for row, tokens in zip(logits, tgt, strict=True):
            written = [*tokens[1:], *end]
            row = row[: len(written)]
            chosen = row[torch.arange(len(written)), written] - row.logsumexp(-1)
            total += float(chosen.double().sum())
            count += len(written)
    return total / max(1, count)
