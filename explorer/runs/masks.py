"""Masks that no model here uses by itself: a user can switch them on to see their effect.

They follow the rule of `models.masks` (Bool; True = this query may attend to this key) and are
combined with those masks by `&`.
"""

from jaxtyping import Bool, Int
from torch import Tensor

from models.masks import causal_mask


def prefix_mask(n_query: int, n_prefix: int, n_key: int | None = None) -> Bool[Tensor, "query key"]:
    """Causal, except that every query sees the first `n_prefix` keys (prefix LM).

    Raffel et al. 2020 (T5), §3.2.1.
    """
    mask = causal_mask(n_query, n_key)
    mask[:, :n_prefix] = True
    return mask


def block_mask(segments: Int[Tensor, "batch pos"]) -> Bool[Tensor, "batch 1 query key"]:
    """A query sees only keys of its own segment, for several texts packed into one row.

    `segments` holds one integer per position: positions with equal integers belong together.
    """
    return (segments[:, :, None] == segments[:, None, :])[:, None]
