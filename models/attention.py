"""Attention: softmax(q k^T / sqrt(d_head)) v, under a mask. Vaswani et al. 2017, §3.2.

`attend` is the arithmetic, on queries, keys and values that are already split into heads.
`Attention` is the sublayer around it: projections, heads, rotation, cache, hook points.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from models.cache import LayerCache
from models.hooks import HookPoint
from models.linear import Joined, Linear, RowCopy, linear
from models.masks import require_mask
from models.positions import Rotation, apply_rotation


class AttendHooks(nn.Module):
    """The hook points that `attend` passes its tensors through; every `Attention` has them."""

    hook_scores: HookPoint
    hook_mask: HookPoint
    hook_pattern: HookPoint


@cache
def _scale(d_head: int, dtype: torch.dtype) -> Tensor | float:
    """1 / sqrt(d_head), as a tensor: of a number torch makes one anew each time, which takes 10 to
    20 us of the 60 that attention takes between two matrices. A number where the tensor would be
    rounded to half precision. Whoever asks first, on whichever device, it serves all others.
    """
    scale = 1 / math.sqrt(d_head)
    if torch.finfo(dtype).bits < 32:
        return scale
    with torch.inference_mode(False):
        return torch.tensor(scale, dtype=dtype, device="cpu")  # goes with tensors of any device


def attend(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch kv_head key d_head"],
    v: Float[Tensor, "batch kv_head key d_value"],
    mask: Bool[Tensor, "..."] | None = None,  # broadcastable to [batch, head, query, key]
    *,
    dropout: float = 0.0,
    fused: bool = False,
    hooks: AttendHooks | None = None,
) -> tuple[Float[Tensor, "batch head query d_value"], Float[Tensor, "batch head query key"] | None]:
    """Mix the values by how well each query matches each key; return (z, pattern).

    scores = q k^T / sqrt(d_head); pattern = softmax(scores) over the keys that `mask` allows
    (True = may attend; None = all), exactly 0 elsewhere; z = pattern v. A query that may attend
    to nothing gets an all-zero pattern, a zero z and finite gradients.

    With fewer key/value heads than query heads, query head i reads kv head i // group (Ainslie
    et al. 2023). `dropout` falls on the pattern after it was returned and seen. `fused` takes
    torch's fused kernel: the same z, and no pattern (None).
    Raises TypeError for a mask that is not Bool; ValueError for one that does not broadcast to
    [batch, head, query, key] and for heads that do not divide.
    """
    n_heads, n_kv_heads = q.shape[1], k.shape[1]
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_heads} query heads cannot share {n_kv_heads} key/value heads evenly")
    if n_heads != n_kv_heads:
        group = n_heads // n_kv_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    if mask is not None:
        require_mask(mask, (q.shape[0], n_heads, q.shape[2], k.shape[2]))

    if fused:
        z = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
        return z, None

    # Scaled before the product: a long row of keys then costs no second walk over its scores.
    scores = q * _scale(q.shape[-1], q.dtype) @ k.transpose(-2, -1)  # [batch, head, query, key]
    if hooks is not None:
        scores = hooks.hook_scores(scores)
        if hooks.hook_mask.wanted:  # a visitor may open or close single cells of single heads
            full = torch.ones((), dtype=torch.bool, device=q.device) if mask is None else mask
            mask = hooks.hook_mask(full.expand(scores.shape))
    if mask is None:
        pattern = scores.softmax(-1)
    else:
        # The lowest finite score, not -inf: a row with nothing allowed then has a softmax without
        # NaN (and so finite gradients), and the second fill makes the blocked cells exactly 0.
        blocked = ~mask
        lowest = torch.finfo(scores.dtype).min
        pattern = scores.masked_fill(blocked, lowest).softmax(-1).masked_fill(blocked, 0.0)
    if hooks is not None:
        pattern = hooks.hook_pattern(pattern)
    z = nn.functional.dropout(pattern, dropout) @ v if dropout else pattern @ v
    return z, pattern


class Attention(AttendHooks):
    """Multi-head attention, self and cross alike: they differ only in where keys come from.

    Raises ValueError when d_model does not divide into the heads, or those not into `n_kv_heads`
    (None: one key/value head for each query head).
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        if n_heads < 1 or d_model % n_heads:
            raise ValueError(f"d_model = {d_model} does not divide into {n_heads} heads")
        if self.n_kv_heads < 1 or n_heads % self.n_kv_heads:
            raise ValueError(f"{n_heads} heads cannot share {self.n_kv_heads} key/value heads")
        self.d_head = d_model // n_heads
        self.dropout = dropout
        self.w_q = Linear(d_model, self.n_heads * self.d_head, bias=bias)
        self.w_k = Linear(d_model, self.n_kv_heads * self.d_head, bias=bias)
        self.w_v = Linear(d_model, self.n_kv_heads * self.d_head, bias=bias)
        self.w_o = Linear(self.n_heads * self.d_head, d_model, bias=bias)
        self._joined: Joined | None = None  # see `join_projections`
        self.hook_q = HookPoint()  # [batch, head, query, d_head], after the rotation
        self.hook_k = HookPoint()  # [batch, kv_head, key, d_head], after the rotation
        self.hook_v = HookPoint()  # [batch, kv_head, key, d_head]
        self.hook_scores = HookPoint()  # [batch, head, query, key], scaled, before the mask
        self.hook_mask = HookPoint()  # [batch, head, query, key], True = may attend
        self.hook_pattern = HookPoint()  # [batch, head, query, key], before dropout
        self.hook_z = HookPoint()  # [batch, head, query, d_head]

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"] | None = None,
        mask: Tensor | None = None,
        rotation: Rotation | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        """Queries from `x`; keys and values from `x` too, or from `memory` (cross-attention).

        With a `cache`, self-attention adds its new keys and values to those of earlier steps;
        cross-attention fills it at the first step and reads it from then on.
        """
        # A gradient has to reach the three matrices themselves.
        joined = self._joined if memory is None and not torch.is_grad_enabled() else None
        if joined is None:
            q = self._split(self.w_q(x), self.n_heads)  # [batch, head, query, d_head]
        else:
            together = linear(x, joined.weight, joined.bias, joined.by_rows)
            heads = self._split(together, self.n_heads + 2 * self.n_kv_heads)
            q, k, v = heads.tensor_split((self.n_heads, self.n_heads + self.n_kv_heads), dim=1)
        if rotation is not None:
            q = apply_rotation(q, rotation)
        if memory is not None and cache is not None and cache.length:
            k, v = cache.keys, cache.values
        else:
            if joined is None:
                source = x if memory is None else memory
                k = self._split(self.w_k(source), self.n_kv_heads)  # [batch, kv_head, key, d_head]
                v = self._split(self.w_v(source), self.n_kv_heads)
            if rotation is not None:
                k = apply_rotation(k, rotation)
            if cache is not None:
                k, v = cache.append(k, v)
        q, k, v = self.hook_q(q), self.hook_k(k), self.hook_v(v)
        looked_at = self.hook_pattern.wanted or self.hook_scores.wanted or self.hook_mask.wanted
        z, _ = attend(
            q,
            k,
            v,
            mask,
            dropout=self.dropout if self.training else 0.0,
            fused=not looked_at,
            hooks=self,
        )
        z = self.hook_z(z)
        return self.w_o(z.transpose(1, 2).flatten(2))

    @torch.no_grad()
    def join_projections(self) -> None:
        """Let w_q, w_k and w_v share one memory, so that self-attention reads them in one product.

        They keep their names, shapes and values; a pass without gradients multiplies by all three
        at once, stored column by column (why: `models.layout`). Moving or converting the sublayer
        parts them again.
        """
        parts = (self.w_q, self.w_k, self.w_v)
        weight = torch.cat([part.weight for part in parts]).t().contiguous().t()
        bias = None if self.w_q.bias is None else torch.cat([part.bias for part in parts])
        first = 0
        for part in parts:
            last = first + part.out_features
            part.weight.data = weight[first:last]
            if bias is not None:
                part.bias.data = bias[first:last]
            first = last
        by_rows = RowCopy.of(weight, *(part.weight for part in parts))
        self._joined = Joined(weight, bias, by_rows)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> "Attention":
        self._joined = None  # `fn` gives each matrix a memory of its own
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _split(self, x: Tensor, n_heads: int) -> Tensor:
        """[batch, pos, head * d_head] -> [batch, head, pos, d_head]."""
        return x.reshape(*x.shape[:2], n_heads, self.d_head).transpose(1, 2)
