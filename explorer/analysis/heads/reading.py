"""One row of attention read out: which keys, how much, how widely, how far away."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from explorer.runs.trace import Trace


@dataclass(frozen=True)
class KeyWeight:
    """One key of a row: its position, what stands there, and its weight (0 to 1)."""

    key: int
    token: str
    weight: float


@dataclass(frozen=True)
class Reading:
    """What one query attends to. All is zero where the mask left it nothing to see.

    `top` are the heaviest keys, heaviest first, without weights of 0; `share` is their sum.
    `entropy` is in bits: 0 for one key alone, log2(n) for n keys alike. `mean_distance` is in
    positions, weighted; None in cross-attention, where query and key count different things.
    """

    query: int
    token: str
    top: tuple[KeyWeight, ...]
    share: float
    entropy: float
    mean_distance: float | None
    n_allowed: int


def reading(trace: Trace, site: str, head: int, query: int, n: int = 3) -> Reading:
    """Read one row of one head, with its `n` heaviest keys (equal ones in their order).

    Raises KeyError for a site, IndexError for a head or query that is not there.
    """
    pattern = trace.pattern(site)
    for name, index, size in (("head", head, len(pattern)), ("query", query, pattern.shape[1])):
        if not 0 <= index < size:
            raise IndexError(f"{site} has {size} of {name}, no {index}")
    row = pattern[head, query].astype(np.float64)
    heaviest = top_keys(row, trace.key_tokens(site), n)
    return Reading(
        query=query,
        token=trace.query_tokens(site)[query],
        top=heaviest,
        share=sum((key.weight for key in heaviest), 0.0),
        entropy=float(entropy(row)),
        mean_distance=(
            float(distances(1, len(row), query)[0] @ row)
            if trace.site(site).kind == "self"
            else None
        ),
        n_allowed=int(trace.mask(site)[head, query].sum()),
    )


def top_keys(
    row: Float[np.ndarray, " key"], tokens: Sequence[str], n: int = 3
) -> tuple[KeyWeight, ...]:
    """The `n` heaviest keys of any row, heaviest first, without weights of 0."""
    order = np.argsort(-row, kind="stable")[:n]
    return tuple(KeyWeight(int(k), tokens[int(k)], float(row[k])) for k in order if row[k] > 0)


def entropy(pattern: Float[np.ndarray, "... key"]) -> Float[np.ndarray, "..."]:
    """Shannon entropy of each row in bits, 0 log 0 being 0; 0 for a row of zeros."""
    weights = np.asarray(pattern, dtype=np.float64)
    logs = np.log2(weights, out=np.zeros_like(weights), where=weights > 0)
    return np.asarray(np.abs((weights * logs).sum(-1)))  # abs: no -0.0


def distances(n_query: int, n_key: int, first: int = 0) -> Float[np.ndarray, "query key"]:
    """How many positions each key is from each query, the first query being at `first`."""
    return np.abs(np.arange(n_key) - (first + np.arange(n_query))[:, None]).astype(np.float64)
