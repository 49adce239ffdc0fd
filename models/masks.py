"""The masks that models make, and the one rule that every mask follows.

Bool; True = this query may attend to this key; broadcastable to [batch, head, query, key];
joined with `&`. Nothing in the project turns a mask round.

torch itself has three other conventions (`nn.MultiheadAttention`: True = blocked; its
`key_padding_mask`: True = ignore; additive floats). Only the tests convert to them.
"""

import torch
from jaxtyping import Bool
from torch import Tensor


def causal_mask(
    n_query: int, n_key: int | None = None, offset: int = 0, device: torch.device | None = None
) -> Bool[Tensor, "query key"]:
    """A query sees its own position and those before it: key_pos <= query_pos.

    `offset` is the position of the first query, so a cached step with one query over
    `n_key` keys is `causal_mask(1, n_key, offset=n_key - 1)`. `n_key` defaults to
    `offset + n_query`. (torch's `is_causal` aligns to the top left instead, and lets that
    query see the first key only.) Vaswani et al. 2017, §3.2.3.
    """
    queries = offset + torch.arange(n_query, device=device)
    keys = torch.arange(offset + n_query if n_key is None else n_key, device=device)
    return keys <= queries[:, None]


def window_mask(
    n_query: int,
    n_key: int | None = None,
    offset: int = 0,
    window: int = 1,
    device: torch.device | None = None,
) -> Bool[Tensor, "query key"]:
    """A query sees only keys fewer than `window` positions away, before it or after it.

    `offset` and `n_key` as in `causal_mask`, with which it makes a decoder's sliding window. Raises
    ValueError for a window under 1, which leaves nothing to see. Beltagy et al. 2020, §3.1.
    """
    if window < 1:
        raise ValueError(f"window must be at least 1, not {window}")
    queries = offset + torch.arange(n_query, device=device)
    keys = torch.arange(offset + n_query if n_key is None else n_key, device=device)
    return (keys - queries[:, None]).abs() < window


def padding_mask(key_valid: Bool[Tensor, "batch key"]) -> Bool[Tensor, "batch 1 1 key"]:
    """No query sees a padding key; `key_valid` is True at real tokens."""
    return key_valid[:, None, None, :]


def require_mask(mask: Tensor, shape: tuple[int, int, int, int]) -> None:
    """Refuse a mask that breaks the rule above, with the reason.

    `shape` is (batch, head, query, key). Raises TypeError for anything but Bool, and ValueError for
    a mask that does not broadcast to `shape`, or would silently make every result larger.
    """
    if mask.dtype != torch.bool:
        raise TypeError(
            f"a mask must be Bool with True = may attend, not {mask.dtype}: a float mask of 0 and "
            "1 would be added to the scores and hide nothing; use mask.bool() if 1 = may attend"
        )
    pairs = zip(reversed(mask.shape), reversed(shape), strict=False)
    if mask.ndim > len(shape) or any(size not in (1, wanted) for size, wanted in pairs):
        raise ValueError(
            f"a mask of shape {tuple(mask.shape)} does not broadcast to "
            f"[batch, head, query, key] = {shape}"
        )
