"""Transformers as people write them, for `certify`: torch's own modules, and a tutorial's."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

PAD = 0
Attend = Callable[[Tensor, Tensor], Tensor]
"""(scores, keep), both [batch, head, query, key] -> pattern."""


class TorchTranslator(nn.Module):
    """`nn.Transformer` with its masks made from the ids."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(20, 16)
        self.first = options.get("batch_first", False)
        self.inner = nn.Transformer(16, 2, 2, 2, 32, dropout=0.1, **options)
        self.out = nn.Linear(16, 20)
        self.bool_masks = True

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        n = tgt.shape[1]
        causal = torch.ones(n, n, dtype=torch.bool).triu(1)
        if not self.bool_masks:
            causal = torch.zeros(n, n).masked_fill(causal, -math.inf)
        pads = {"src": src == PAD, "tgt": tgt == PAD}
        if not self.bool_masks:
            pads = {k: torch.zeros(v.shape).masked_fill(v, -math.inf) for k, v in pads.items()}
        x, y = self.embed(src), self.embed(tgt)
        if not self.first:
            x, y = x.transpose(0, 1), y.transpose(0, 1)
        z = self.inner(
            x,
            y,
            tgt_mask=causal,
            src_key_padding_mask=pads["src"],
            tgt_key_padding_mask=pads["tgt"],
            memory_key_padding_mask=pads["src"],
        )
        return self.out(z if self.first else z.transpose(0, 1))


class TorchAttentions(nn.Module):
    """`nn.MultiheadAttention` in the decoder of a translator, with what it may be asked to add."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(20, 16)
        self.own = nn.MultiheadAttention(16, 2, batch_first=True, **options)
        self.across = nn.MultiheadAttention(16, 2, batch_first=True, **options)
        self.out = nn.Linear(16, 20)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        n = tgt.shape[1]
        causal = torch.ones(n, n, dtype=torch.bool).triu(1)
        memory, x = self.embed(src), self.embed(tgt)
        x = x + self.own(x, x, x, key_padding_mask=tgt == PAD, attn_mask=causal)[0]
        return self.out(x + self.across(x, memory, memory, key_padding_mask=src == PAD)[0])


class TorchText(nn.Module):
    """`nn.TransformerEncoder` on one text, causal or not."""

    def __init__(self, causal: bool, norm_first: bool = False, positions: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.causal = causal
        self.embed = nn.Embedding(20, 16, padding_idx=PAD)
        self.positions = nn.Embedding(32, 16) if positions else None
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first)
        self.inner = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(16, 20)

    def forward(self, ids: Tensor) -> Tensor:
        x, n = self.embed(ids), ids.shape[1]
        if self.positions is not None:
            x = x + self.positions(torch.arange(n))
        mask = torch.ones(n, n, dtype=torch.bool).triu(1) if self.causal else None
        return self.out(self.inner(x, mask=mask, src_key_padding_mask=ids == PAD))


def masked_softmax(scores: Tensor, keep: Tensor) -> Tensor:
    """Right: nothing on hidden keys, and 0 for a row that may see nothing."""
    return scores.masked_fill(~keep, -torch.inf).softmax(-1).nan_to_num(0.0)


class PlainAttention(nn.Module):
    """Multi-head attention from a tutorial; `attend` makes the pattern."""

    def __init__(self, attend: Attend, n_heads: int = 4) -> None:
        super().__init__()
        self.n_heads, width = n_heads, 4 * n_heads
        self.qkv = nn.ModuleList(nn.Linear(16, width) for _ in range(3))
        self.qkv.append(nn.Linear(width, 16))
        self.attend = attend

    def forward(self, x: Tensor, memory: Tensor, keep: Tensor) -> Tensor:
        q, k, v = (
            layer(given).unflatten(-1, (self.n_heads, 4)).transpose(1, 2)
            for layer, given in zip(self.qkv, (x, memory, memory), strict=False)
        )
        scores = q @ k.transpose(-2, -1) / 2
        z = self.attend(scores, keep.expand(scores.shape)) @ v
        return self.qkv[3](z.transpose(1, 2).flatten(-2))


class PlainTranslator(nn.Module):
    """An encoder and a decoder, one fault at a time: `own`, `across`, `reading` make patterns."""

    def __init__(
        self,
        own: Attend = masked_softmax,
        across: Attend = masked_softmax,
        reading: Attend = masked_softmax,
        n_heads: int = 4,
    ) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(20, 16)
        self.reading = nn.ModuleList(PlainAttention(reading, n_heads) for _ in range(2))
        self.own = nn.ModuleList(PlainAttention(own, n_heads) for _ in range(2))
        self.across = nn.ModuleList(PlainAttention(across, n_heads) for _ in range(2))
        self.out = nn.Linear(16, 20)

    def masks(self, src: Tensor, tgt: Tensor) -> tuple[Tensor, Tensor]:
        """Of the source [batch, 1, 1, key], and causal [batch, 1, query, key]."""
        read, wrote = (src != PAD)[:, None, None], (tgt != PAD)[:, None, None]
        n = tgt.shape[1]
        return read, torch.ones(n, n, dtype=torch.bool).tril() & wrote

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        read, causal = self.masks(src, tgt)
        memory = self.embed(src)
        for layer in self.reading:
            memory = memory + layer(memory, memory, read)
        x = self.embed(tgt)
        for own, across in zip(self.own, self.across, strict=True):
            x = x + own(x, x, causal)
            x = x + across(x, memory, read)
        return self.out(x)


Causal = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(q, k, v), [batch, head, pos, d_head] with queries for the last keys -> z."""


def causal_with_offset(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Right for a step with a cache too: the last query sees every key."""
    n_query, n_key = q.shape[-2], k.shape[-2]
    keep = torch.ones(n_query, n_key, dtype=torch.bool).tril(n_key - n_query)
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keep)


class CachedText(nn.Module):
    """One text without padding, with a cache named as Hugging Face's, made of (keys, values)."""

    def __init__(self, attend: Causal = causal_with_offset) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.positions = nn.Embedding(20, 16), nn.Embedding(32, 16)
        self.qkv = nn.ModuleList(nn.Linear(16, 48) for _ in range(2))
        self.out = nn.Linear(16, 20)
        self.attend = attend

    def forward(self, ids: Tensor, past_key_values: Any = None, use_cache: bool = False) -> Any:
        past = past_key_values or [None] * len(self.qkv)
        begin = 0 if past[0] is None else past[0][0].shape[2]
        x = self.embed(ids) + self.positions(torch.arange(begin, begin + ids.shape[1]))
        cache = []
        for layer, old in zip(self.qkv, past, strict=True):
            q, k, v = layer(x).unflatten(-1, (3, 4, 4)).permute(2, 0, 3, 1, 4)
            if old is not None:
                k, v = torch.cat([old[0], k], 2), torch.cat([old[1], v], 2)
            cache.append((k, v))
            x = x + self.attend(q, k, v).transpose(1, 2).flatten(-2)
        return (self.out(x), cache) if use_cache else self.out(x)
