"""Attention: softmax(q k^T / sqrt(d_head)) v, under a mask. Vaswani et al. 2017, §3.2."""

import math
from collections.abc import Callable
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from models.cache import LayerCache
from models.config import ModelConfig
from models.hooks import HookPoint
from models.masks import require_mask
from models.norms import HeadsNorm, RMSNorm
from models.positions import NOWHERE, Placement, rotate


def capped(x: Tensor, cap: float | None) -> Tensor:
    """cap tanh(x / cap), bounded by the cap (Gemma 2); x unchanged if `cap` is None."""
    return x if cap is None else cap * (x / cap).tanh()


def share_heads(q: Tensor, kv: Tensor) -> Tensor:
    """Keys or values [batch, kv_head, key, d] for each of the query heads of `q`.

    Query head i reads kv head i // group (Ainslie et al. 2023). Raises ValueError if the number of
    query heads is not a multiple of the number of key/value heads.
    """
    n_heads, n_kv_heads = q.shape[1], kv.shape[1]
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_heads} query heads cannot share {n_kv_heads} key/value heads evenly")
    return kv if n_heads == n_kv_heads else kv.repeat_interleave(n_heads // n_kv_heads, dim=1)


def attend(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch kv_head key d_head"],
    v: Float[Tensor, "batch kv_head key d_value"],
    mask: Bool[Tensor, "..."] | None = None,  # broadcastable to [batch, head, query, key]
    *,
    bias: Float[Tensor, "batch head query key"] | None = None,
    divisor: float | None = None,
    cap: float | None = None,
    dropout: float = 0.0,
    hooks: "Attention | None" = None,
) -> tuple[Float[Tensor, "batch head query d_value"], Float[Tensor, "batch head query key"]]:
    """Mix the values by how well each query matches each key; return (z, pattern).

    scores = q k^T / sqrt(d_head) + bias (a positional bias, if any); pattern = softmax(scores) over
    the keys that `mask` allows (True = may attend; None = all), exactly 0 elsewhere; z = pattern v.
    A `divisor` replaces sqrt(d_head); with a `cap`, scaled scores are `capped` before the bias.
    A fully masked row gets an all-zero pattern, a zero z and finite gradients.

    With fewer key/value heads than query heads, groups of query heads share one (`share_heads`).
    The hook points of `hooks`, a sublayer, receive the scores, the mask, and the pattern before
    `dropout`. Raises TypeError if the mask is not Bool; ValueError if it does not broadcast to
    [batch, head, query, key], or if the head counts do not divide.
    """
    k, v = share_heads(q, k), share_heads(q, v)
    scores = q @ k.transpose(-2, -1) / (divisor or math.sqrt(q.shape[-1]))
    scores = capped(scores, cap)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    if mask is None:
        mask = torch.ones((), dtype=torch.bool, device=q.device)
    require_mask(mask, (*q.shape[:3], k.shape[2]))
    mask = mask.expand(scores.shape)
    if hooks is not None:
        scores, mask = hooks.hook_scores(scores), hooks.hook_mask(mask)
    # The lowest finite score, not -inf: the softmax of a fully masked row is then free of NaN
    # (so gradients are finite), and the second fill makes the blocked cells exactly 0.
    lowest = torch.finfo(scores.dtype).min
    pattern = scores.masked_fill(~mask, lowest).softmax(-1).masked_fill(~mask, 0.0)
    if hooks is not None:
        pattern = hooks.hook_pattern(pattern)
    z = nn.functional.dropout(pattern, dropout) @ v
    return z, pattern


class Attention(nn.Module):
    """Multi-head attention: self- or cross-attention, depending on the source of keys and values.

    Groups of query heads share the config's key/value heads. `qk_norm`: an RMSNorm on each query
    and key before any rotation (Henry et al. 2020); with `qk_norm_joint`, on all heads together.
    """

    attend: ClassVar[Callable[..., tuple[Tensor, Tensor | None]]] = staticmethod(attend)
    rotate: ClassVar[Callable[..., Tensor]] = staticmethod(rotate)

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads, self.d_head = config.n_heads, config.kv_heads, config.d_head
        self.dropout = config.pattern_dropout
        self.divisor, self.score_cap = config.divisor, config.score_cap
        queries, keys = self.n_heads * self.d_head, self.n_kv_heads * self.d_head
        self.w_q = nn.Linear(config.d_model, queries, bias=config.bias)
        self.w_k = nn.Linear(config.d_model, keys, bias=config.bias)
        self.w_v = nn.Linear(config.d_model, keys, bias=config.bias)
        self.w_o = nn.Linear(queries, config.d_model, bias=config.bias)
        kind, sizes = RMSNorm, (self.d_head, self.d_head)
        if config.qk_norm_joint:
            kind, sizes = HeadsNorm, (queries, keys)
        self.q_norm, self.k_norm = (
            kind(size, config.norm_eps) if config.qk_norm else nn.Identity() for size in sizes
        )
        self.hook_q = HookPoint()  # [batch, head, query, d_head], after any norm and rotation
        self.hook_k = HookPoint()  # [batch, kv_head, key, d_head], after any norm and rotation
        self.hook_v = HookPoint()  # [batch, kv_head, key, d_head]
        self.hook_bias = HookPoint()  # [batch, head, query, key], if there is a positional bias
        self.hook_scores = HookPoint()  # [batch, head, query, key], scaled and biased, unmasked
        self.hook_mask = HookPoint()  # [batch, head, query, key], True = may attend
        self.hook_pattern = HookPoint()  # [batch, head, query, key], before dropout
        self.hook_z = HookPoint()  # [batch, head, query, d_head]

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"] | None = None,
        mask: Tensor | None = None,
        placement: Placement = NOWHERE,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        """Queries from `x`; keys and values from `x` too, or from `memory` (cross-attention).

        With a `cache`, self-attention appends its new keys and values to those of earlier steps;
        cross-attention fills the cache at the first step and only reads it afterwards.
        """
        if memory is not None and cache is not None and cache.length:
            q = self.q_norm(self._split(self.w_q(x)))
        else:
            q, k, v = self.project(x, x if memory is None else memory)
            q, k = self.q_norm(q), self.k_norm(k)
            if placement.rotation is not None:  # cached keys are already rotated
                q, k = (self.rotate(projection, placement.rotation) for projection in (q, k))
            if cache is not None:
                cache.append(k, v)
        if cache is not None:
            k, v = cache.columns
        q, k, v = self.hook_q(q), self.hook_k(k), self.hook_v(v)
        bias = None if placement.bias is None else self.hook_bias(placement.bias)
        dropout = self.dropout if self.training else 0.0
        z, _ = self.attend(
            q, k, v, mask, bias=bias, divisor=self.divisor, cap=self.score_cap,
            dropout=dropout, hooks=self,
        )  # fmt: skip
        return self.w_o(self.hook_z(z).transpose(1, 2).flatten(2))

    def project(self, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries from `x`, keys and values from `source`, each [batch, (kv_)head, pos, d_head]."""
        q, k, v = map(self._split, (self.w_q(x), self.w_k(source), self.w_v(source)))
        return q, k, v

    def _split(self, x: Tensor) -> Tensor:
        """[batch, pos, head * d_head] -> [batch, head, pos, d_head]."""
        return x.reshape(*x.shape[:2], -1, self.d_head).transpose(1, 2)
