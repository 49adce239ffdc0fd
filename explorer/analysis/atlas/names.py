"""What a head mostly does, in one word that follows from its numbers."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from explorer.analysis.atlas.sums import LACKING, MEASURES, Measure
from models.hooks import Role

Kind = Literal[Measure, "mixed"]
MOSTLY = 0.5
"""A head does mostly what it does in this share of the rows, or more."""
ALIGNED = 0.4
"""A head of cross-attention aligns when queries and keys share this much of the information that
they could; all of it would take a key of its own for every query."""
EVER = 50
"""Rows in which there has to be a repeated or rare token, or a punctuation mark, to judge by."""
BEYOND = 1.5
"""Times what a row that weighs all keys alike would give, for a name out of SOMETIMES."""
SOMETIMES: tuple[Measure, ...] = ("induction", "repeat", "punctuation", "rare")
"""What many rows have no key for; they name a head only where nothing else does."""


@dataclass(frozen=True)
class Name:
    """`share` of the rows that have such a key have it as their heaviest one (`alignment`: of the
    information there could be, `spread`: of all rows). `mixed`: nothing reaches half of them, and
    `nearest` comes closest."""

    kind: Kind
    nearest: Measure
    share: float


def name_of(
    role: Role,
    share: Float[np.ndarray, " measure"],
    rows: Int[np.ndarray, " measure"],
    chance: Float[np.ndarray, " measure"],
) -> Name:
    """The name of a head by its `strengths` and in how many rows each measure could be.

    What is possible in every row goes before what only some rows have; of several the largest
    share, and among equals the first of MEASURES.

    A name that only some rows can have must also be BEYOND times what `chance` gives: where most
    words are rare, to look at rare ones is no trait.
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
