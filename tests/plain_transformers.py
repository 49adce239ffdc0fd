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

    def __init__(self, attend: Attend) -> None:
        super().__init__()
        self.qkv = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.attend = attend

    def forward(self, x: Tensor, memory: Tensor, keep: Tensor) -> Tensor:
        q, k, v = (
            layer(given).unflatten(-1, (4, 4)).transpose(1, 2)
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
    ) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(20, 16)
        self.reading = nn.ModuleList(PlainAttention(reading) for _ in range(2))
        self.own = nn.ModuleList(PlainAttention(own) for _ in range(2))
        self.across = nn.ModuleList(PlainAttention(across) for _ in range(2))
        self.out = nn.Linear(16, 20)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        read, wrote = (src != PAD)[:, None, None], (tgt != PAD)[:, None, None]
        n = tgt.shape[1]
        causal = torch.ones(n, n, dtype=torch.bool).tril() & wrote
        memory = self.embed(src)
        for layer in self.reading:
            memory = memory + layer(memory, memory, read)
        x = self.embed(tgt)
        for own, across in zip(self.own, self.across, strict=True):
            x = x + own(x, x, causal)
            x = x + across(x, memory, read)
        return self.out(x)
