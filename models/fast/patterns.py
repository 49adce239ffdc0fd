"""Attention if only the pattern is recorded, no scores or mask; see `models.fast`."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from models.attention import capped

QUERIES = 64  # chunk size: scores of a dozen heads over a thousand keys fit into the cache


@dataclass(frozen=True, eq=False)
class Hiding:
    """A mask prepared for given numbers of queries and keys, computed once for all layers of a
    pass, which share the mask.

    `added` [1 | batch, 1 | head, query, key] is 0 where a query may attend and -inf elsewhere; it
    is None if there is a fully masked row, since the softmax of -inf only is NaN. No query of the
    i-th chunk of QUERIES may attend to a key from `ends[i]` on.
    """

    mask: Tensor  # all four axes, broadcast to query and key
    added: Tensor | None
    ends: tuple[int, ...]
    dtype: torch.dtype

    @classmethod
    def of(cls, mask: Tensor, n_query: int, n_key: int, dtype: torch.dtype) -> "Hiding":
        memo: Hiding | None = getattr(mask, "hiding", None)
        size = (n_query, n_key)
        if memo is not None and memo.mask.shape[2:] == size and memo.dtype == dtype:
            return memo
        shared = (1, 1, 1, 1)[mask.ndim :] + mask.shape  # not expanded over heads
        whole = mask.reshape(shared).expand(*shared[:2], *size)
        seen = [part.flatten(0, 2).any(0).nonzero() for part in torch.split(whole, QUERIES, 2)]
        ends = tuple(int(keys[-1]) + 1 if len(keys) else 1 for keys in seen)
        added = None
        if bool(mask.any(-1).all()):
            added = torch.zeros((), dtype=dtype).masked_fill(~whole, -torch.inf)
        hiding = cls(whole, added, ends, dtype)
        mask.hiding = hiding  # type: ignore[attr-defined]
        return hiding


def products(q: Tensor, k_t: Tensor, scale: float, added: Tensor | None = None) -> Tensor:
    """scale q k_t + added in one product; k_t is [batch, head, d_head, key]."""
    shape = (*q.shape[:3], k_t.shape[3])
    beta, added = (0, q.new_zeros(())) if added is None else (1, added)
    three = added.expand(shape).flatten(0, 1), q.flatten(0, 1), k_t.flatten(0, 1)
    return torch.baddbmm(*three, beta=beta, alpha=scale).view(shape)


def mixed(pattern: Tensor, v: Tensor) -> Tensor:
    """pattern v: [batch, head, query, d_value]."""
    return torch.bmm(pattern.flatten(0, 1), v.flatten(0, 1)).view(*pattern.shape[:3], -1)


def patterned(
    q: Tensor,
    k_t: Tensor,
    v: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    scale: float,
    cap: float | None,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Compute z [batch, head, query, d_value] and the pattern [batch, head, query, key] in `dtype`
    on a CPU without gradients; `k_t` holds the keys, [batch, head, d_head, key].

    The pattern has a version counter (it is not an inference tensor), so writes can be detected.
    """
    n_query, n_key = q.shape[2], k_t.shape[3]
    hiding = None if mask is None else Hiding.of(mask, n_query, n_key, q.dtype)
    with torch.inference_mode(False):
        pattern = torch.empty(*q.shape[:3], n_key, dtype=dtype)
    starts = [*range(0, n_query, QUERIES), n_query]
    added, seen = (None, None) if hiding is None else (hiding.added, hiding.mask)
    if len(starts) == 2:
        out = pattern if dtype == q.dtype else None
        whole = _pattern(q, k_t, added, seen, bias, scale, cap, out)
        return mixed(whole, v), pattern if whole is pattern else pattern.copy_(whole)
    z = q.new_empty(*q.shape[:3], v.shape[3])
    for number, (start, stop) in enumerate(pairwise(starts)):
        end = n_key if hiding is None else hiding.ends[number]
        here = (..., slice(start, stop), slice(end))
        near = [None if tensor is None else tensor[here] for tensor in (added, seen, bias)]
        part = _pattern(q[:, :, start:stop], k_t[..., :end], near[0], near[1], near[2], scale, cap)
        pattern[here], pattern[:, :, start:stop, end:] = part, 0.0
        z[:, :, start:stop] = mixed(part, v[:, :, :end])
    return z, pattern


def _pattern(
    q: Tensor,
    k_t: Tensor,
    added: Tensor | None,
    mask: Tensor | None,
    bias: Tensor | None,
    scale: float,
    cap: float | None,
    out: Tensor | None = None,
) -> Tensor:
    """The pattern of some queries; `added` is `mask` as a term of the scores, if possible."""
    if cap is None and (mask is None or added is not None):
        if bias is not None:
            added = bias if added is None else bias + added
        return torch.softmax(products(q, k_t, scale, added), -1, out=out)
    scores = capped(products(q, k_t, scale), cap)
    return masked_softmax(scores if bias is None else scores + bias, mask, out)


def masked_softmax(scores: Tensor, mask: Tensor | None, out: Tensor | None = None) -> Tensor:
    """Softmax of the scores, exactly 0 where masked and in all of a fully masked row."""
    if mask is None:
        return torch.softmax(scores, -1, out=out)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    pattern = torch.softmax(scores, -1, out=out)
    return pattern.masked_fill(~mask, 0.0) if out is None else pattern.masked_fill_(~mask, 0.0)
