"""Many writers as a ranking, the smallest taken together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from explorer.analysis.causes.ledger import Writer


@dataclass(frozen=True)
class Group:
    """A writer, or (`writer` None) all the rest as one; `members` are their places among all."""

    writer: Writer | None
    members: tuple[int, ...]

    def of(self, values: Float[np.ndarray, "writer *rest"]) -> Float[np.ndarray, "*rest"]:
        """The sum of their values."""
        return np.asarray(values[list(self.members)].sum(0))


def largest(
    writers: Sequence[Writer], values: Float[np.ndarray, " writer"], most: int
) -> tuple[Group, ...]:
    """The writers by the size of their values, largest first; beyond `most`, the rest as one.

    Biases that are exactly 0, as in a model without any, are left out.
    """
    order = [
        at
        for at in np.argsort(-np.abs(values), kind="stable").tolist()
        if writers[at].kind != "bias" or values[at] != 0
    ]
    alone = order if len(order) <= most else order[: most - 1]
    groups = [Group(writers[at], (at,)) for at in alone]
    rest = tuple(order[len(alone) :])
    return (*groups, Group(None, rest)) if rest else tuple(groups)
