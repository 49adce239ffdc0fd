"""A one-word name for what a head mostly does, derived from its numbers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from explorer.analysis.roles import LACKING, MEASURES, Measure
from models.hooks import Role

Kind = Literal[Measure, "mixed"]
MOSTLY = 0.5
"""A head is named after what it does in at least this share of the rows."""
ALIGNED = 0.4
"""A cross-attention head aligns if queries and keys share at least this much of the possible
information; 1 would require a different key for every query."""
EVER = 50
"""Minimum number of rows with a repeated token, rare token or punctuation mark to judge by."""
BEYOND = 1.5
"""A name from SOMETIMES needs this many times the weight of uniform attention."""
SOMETIMES: tuple[Measure, ...] = ("induction", "repeat", "punctuation", "rare")
"""Measures for which many rows have no key; they name a head only if nothing else does."""


@dataclass(frozen=True)
class Name:
    """A head's name and its score.

    `share` is the share of the rows with such a key in which it is the heaviest one (`alignment`:
    of the possible information, `spread`: of all rows). `mixed`: no measure reaches half of them,
    and `nearest` comes closest.
    """

    kind: Kind
    nearest: Measure
    share: float


def alike_by_chance(pairs: Sequence[tuple[Role, Kind, Kind]]) -> float:
    """The expected number of pairs of heads with one name, with the heads of each role in a random
    order in the second model."""
    firsts, seconds = (Counter((pair[0], pair[at]) for pair in pairs) for at in (1, 2))
    n_of = Counter(role for role, *_ in pairs)
    return sum(n * seconds[label] / n_of[label[0]] for label, n in firsts.items())


def name_of(
    role: Role,
    share: Float[np.ndarray, " measure"],
    rows: Int[np.ndarray, " measure"],
    chance: Float[np.ndarray, " measure"],
) -> Name:
    """The name of a head, from its `strengths` and the number of rows in which each is possible.

    Measures possible in every row take precedence over those possible in some rows only. Among
    several the largest share wins; ties go to the first of MEASURES.

    A name possible in some rows only must also be BEYOND times the uniform baseline `chance`: if
    most words are rare, attending to rare ones is not a characteristic.
    """
    able = [name for name in MEASURES if name not in LACKING[role]]
    value = {name: float(share[MEASURES.index(name)]) for name in able}
    count = {name: int(rows[MEASURES.index(name)]) for name in able}
    always = [name for name in able if name not in SOMETIMES and count[name]]
    sometimes = [
        name
        for name in able
        if name in SOMETIMES
        and count[name] >= EVER
        and value[name] >= BEYOND * float(chance[MEASURES.index(name)])
    ]
    for group in (always, sometimes):
        reached = [n for n in group if value[n] >= (ALIGNED if n == "alignment" else MOSTLY)]
        if reached:
            best = max(reached, key=lambda name: value[name])
            return Name(best, best, value[best])
    compared = [name for name in (*always, *sometimes) if name != "alignment"]
    if not compared:
        return Name("mixed", "first", 0.0)
    nearest = max(compared, key=lambda name: value[name])
    return Name("mixed", nearest, value[nearest])
