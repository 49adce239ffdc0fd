"""Queries, keys and masks of calls of torch's own functions, from their arguments."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCKING = -5e3
"""What is added to a score and is no larger counts as a mask: -1e4, -inf, the smallest float."""


def allowed(mask: Tensor) -> Tensor:
    """A mask of torch as Bool, True = may attend; of an added one, what is above `BLOCKING`."""
    return mask.detach() if mask.dtype == torch.bool else mask.detach() > BLOCKING


@dataclass(frozen=True, eq=False)
class Heads:
    """`query`, `key` [batch, head, pos, d_head]; `keep` Bool [batch, head, query, key] or None."""

    query: Tensor
    key: Tensor
    keep: Tensor | None


def heads_of(given: Mapping[str, Any]) -> Heads:
    """What the function makes of its arguments (by name) before it multiplies queries and keys.

    Sequences come first in them, [pos, batch, d_model], or without a batch. `bias_k`, `static_k`
    and `add_zero_attn` add keys, which every query may attend to. torch means True = blocked; the
    result means True = may attend.
    """
    query, key = given["query"].detach(), given["key"].detach()
    if query.ndim == 2:
        query, key = query[:, None], key[:, None]
    n_heads, batch = given["num_heads"], query.shape[1]
    if given["use_separate_proj_weight"]:
        w_query, w_key = given["q_proj_weight"], given["k_proj_weight"]
    else:
        w_query, w_key, _ = given["in_proj_weight"].chunk(3)
    biases = given["in_proj_bias"]
    b_query, b_key, _ = (None, None, None) if biases is None else biases.chunk(3)
    q, k = F.linear(query, w_query, b_query), F.linear(key, w_key, b_key)
    if given["bias_k"] is not None:
        k = torch.cat([k, given["bias_k"].expand(1, batch, -1)])
    q, k = (t.reshape(*t.shape[:2], n_heads, -1).permute(1, 2, 0, 3) for t in (q, k))
    if given["static_k"] is not None:
        k = given["static_k"].reshape(batch, n_heads, *given["static_k"].shape[1:])
    n_given = given["key"].shape[0]
    if given["add_zero_attn"]:
        k = torch.cat([k, k.new_zeros(*k.shape[:2], 1, k.shape[-1])], dim=2)
    keep = _keep(given, batch, n_heads, q.shape[2], n_given)
    if keep is not None and k.shape[2] > keep.shape[-1]:
        keep = F.pad(keep, (0, k.shape[2] - keep.shape[-1]), value=True)
    return Heads(q, k, keep)


def _keep(given: Mapping[str, Any], batch: int, n_heads: int, n_q: int, n_k: int) -> Tensor | None:
    shape = (batch, n_heads, n_q, n_k)
    keep = None
    for name in ("attn_mask", "key_padding_mask"):
        mask = given[name]
        if mask is None:
            continue
        open_ = ~mask if mask.dtype == torch.bool else allowed(mask)
        if name == "key_padding_mask":
            open_ = open_.reshape(batch, 1, 1, -1)
        elif open_.ndim == 3 and open_.shape[0] != 1:
            open_ = open_.reshape(batch, n_heads, *open_.shape[1:])
        open_ = open_.detach().expand(shape)
        keep = open_ if keep is None else keep & open_
    return keep
