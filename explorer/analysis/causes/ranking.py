"""Rank components by their contributions and group the smallest ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from explorer.analysis.causes.ledger import Writer


@dataclass(frozen=True)
class Components:
    """A component, or (`writer` None) all the remaining ones; `members` are their indices."""

    writer: Writer | None
    members: tuple[int, ...]

    def of(self, values: Float[np.ndarray, "writer *rest"]) -> Float[np.ndarray, "*rest"]:
        """The sum of the members' values."""
        return np.asarray(values[list(self.members)].sum(0))


def largest(
    writers: Sequence[Writer], values: Float[np.ndarray, " writer"], most: int
) -> tuple[Components, ...]:
    """The components in descending order of |value|; those beyond `most` form one group.

    Biases that are exactly 0, as in a model without any, are left out.
    """
    order = [
        at
        for at in np.argsort(-np.abs(values), kind="stable").tolist()
        if writers[at].kind != "bias" or values[at] != 0
    ]
    alone = order if len(order) <= most else order[: most - 1]
    groups = [Components(writers[at], (at,)) for at in alone]
    rest = tuple(order[len(alone) :])
    return (*groups, Components(None, rest)) if rest else tuple(groups)
