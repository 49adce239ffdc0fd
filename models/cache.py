"""The KV cache: keys and values that attention has computed for earlier tokens.

In self-attention, each decoding step appends one column. In cross-attention, keys and values are
computed from the encoder's output once. Keys are stored after any rotation. Shazeer 2019, §2.3.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


class LayerCache:
    """Keys and values of one attention sublayer, each [batch, kv_head, pos, d_head]."""

    _columns: Tensor | None = None  # [keys and values, batch, kv_head, pos, d_head]

    def append(
        self,
        k: Float[Tensor, "batch kv_head new d_head"],
        v: Float[Tensor, "batch kv_head new d_head"],
    ) -> None:
        """Append new columns."""
        new = torch.stack((k, v))
        self._columns = new if self._columns is None else torch.cat((self._columns, new), dim=3)

    @property
    def columns(self) -> Tensor:
        """Keys and values, [2, batch, kv_head, pos, d_head]. Raises ValueError if empty."""
        if self._columns is None:
            raise ValueError("the cache is empty: append to it first")
        return self._columns

    @property
    def length(self) -> int:
        """The number of cached positions."""
        return 0 if self._columns is None else self._columns.shape[3]

    def select(self, rows: Int[Tensor, " new_batch"]) -> None:
        """Keep these batch rows, in this order; a row may be repeated (beam search)."""
        if self._columns is not None:
            self._columns = self._columns[:, rows]


class KVCache:
    """The caches of a decoder: one `LayerCache` per block for self-, one for cross-attention."""

    def __init__(self, n_layers: int) -> None:
        self.self_attn = [LayerCache() for _ in range(n_layers)]
        self.cross_attn = [LayerCache() for _ in range(n_layers)]

    @property
    def length(self) -> int:
        """The number of target positions already seen, equal in all blocks."""
        return self.self_attn[0].length

    def select(self, rows: Int[Tensor, " new_batch"]) -> None:
        """Apply `LayerCache.select` in every layer."""
        for layer in (*self.self_attn, *self.cross_attn):
            layer.select(rows)
