"""The masks of the models, two that a user can switch on (`prefix_mask`, `block_mask`), and the
convention for every mask.

Masks are Bool; True = this query may attend to this key; broadcastable to [batch, head, query,
key]; combined with `&`. No code of the models uses inverted masks.

torch has three other conventions (`nn.MultiheadAttention`: True = masked; its `key_padding_mask`:
True = ignored; additive floats).
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def causal_mask(
    n_query: int, n_key: int | None = None, offset: int = 0, device: torch.device | None = None
) -> Bool[Tensor, "query key"]:
    """A query may attend to its own and earlier positions: key_pos <= query_pos.

    `offset` is the position of the first query, so the mask of a cached step with one query over
    `n_key` keys is `causal_mask(1, n_key, offset=n_key - 1)`. `n_key` defaults to
    `offset + n_query`. (torch's `is_causal` aligns to the top left instead, so that this query
    could attend to the first key only.) Vaswani et al. 2017, §3.2.3.
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
    """A query may attend to keys fewer than `window` positions away, in both directions.

    `offset` and `n_key` are as in `causal_mask`; combine both for a decoder's sliding window.
    Raises ValueError for a window below 1, which would mask every key. Beltagy et al. 2020, §3.1.
    """
    if window < 1:
        raise ValueError(f"window must be at least 1, not {window}")
    queries = offset + torch.arange(n_query, device=device)
    keys = torch.arange(offset + n_query if n_key is None else n_key, device=device)
    return (keys - queries[:, None]).abs() < window


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


def padding_mask(key_valid: Bool[Tensor, "batch key"]) -> Bool[Tensor, "batch 1 1 key"]:
    """Masks padding keys for all queries; `key_valid` is True at real tokens."""
    return key_valid[:, None, None, :]


def require_mask(mask: Tensor, shape: tuple[int, int, int, int]) -> None:
    """Check that a mask follows the convention above.

    `shape` is (batch, head, query, key). Raises TypeError if the mask is not Bool, and ValueError
    if it does not broadcast to `shape` or would enlarge the scores by broadcasting.
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
