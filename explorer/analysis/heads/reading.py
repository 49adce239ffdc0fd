"""Reading rows of attention: the heaviest keys, the entropy."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class KeyWeight:
    """One key of a row: its position, its token and its weight (0 to 1)."""

    key: int
    token: str
    weight: float


def top_keys(
    row: Float[np.ndarray, " key"], tokens: Sequence[str], n: int = 3
) -> tuple[KeyWeight, ...]:
    """The `n` heaviest keys of any row, heaviest first, without weights of 0."""
    order = np.argsort(-row, kind="stable")[:n]
    return tuple(KeyWeight(int(k), tokens[int(k)], float(row[k])) for k in order if row[k] > 0)


def entropy(pattern: Float[np.ndarray, "... key"]) -> Float[np.ndarray, "..."]:
    """Shannon entropy of each row in bits, with 0 log 0 = 0; 0 for a row of zeros."""
    weights = np.asarray(pattern, dtype=np.float64)
    logs = np.log2(weights, out=np.zeros_like(weights), where=weights > 0)
    return np.asarray(np.abs((weights * logs).sum(-1)))  # abs: no -0.0
