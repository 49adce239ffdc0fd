"""The key/value cache: what attention has already computed for the tokens before this one.

Self-attention's keys and values grow by one column a step. Cross-attention's are computed from
the encoder's output once and stay. Keys are stored as attention uses them (after the rotation, for
rotary positions). Shazeer 2019 (Fast Transformer Decoding), §2.3.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


class LayerCache:
    """Keys and values of one attention sublayer, each [batch, kv_head, pos, d_head].

    The storage is larger than what it holds and doubles when full, so that a step writes one
    column and copies nothing.
    """

    def __init__(self) -> None:
        self._keys: Tensor | None = None
        self._values: Tensor | None = None
        self.length = 0

    def append(
        self,
        k: Float[Tensor, "batch kv_head new d_head"],
        v: Float[Tensor, "batch kv_head new d_head"],
    ) -> tuple[
        Float[Tensor, "batch kv_head pos d_head"], Float[Tensor, "batch kv_head pos d_head"]
    ]:
        """Store the new columns and return all of them, old and new."""
        end = self.length + k.shape[2]
        self._keys = self._with_room(self._keys, k, end)
        self._values = self._with_room(self._values, v, end)
        self._keys[:, :, self.length : end] = k
        self._values[:, :, self.length : end] = v
        self.length = end
        return self.keys, self.values

    def _with_room(self, stored: Tensor | None, new: Tensor, end: int) -> Tensor:
        if stored is not None and stored.shape[2] >= end:
            return stored
        batch, kv_head, _, d_head = new.shape
        room = new.new_empty(batch, kv_head, max(16, 2 * end), d_head)
        if stored is not None:
            room[:, :, : self.length] = stored[:, :, : self.length]
        return room

    @property
    def keys(self) -> Tensor:
        """[batch, kv_head, pos, d_head]. Raises ValueError while the cache is empty."""
        if self._keys is None:
            raise ValueError("the cache is empty: append to it first")
        return self._keys[:, :, : self.length]

    @property
    def values(self) -> Tensor:
        """[batch, kv_head, pos, d_head]. Raises ValueError while the cache is empty."""
        if self._values is None:
            raise ValueError("the cache is empty: append to it first")
        return self._values[:, :, : self.length]

    def select(self, rows: Int[Tensor, " new_batch"]) -> None:
        """Keep these batch rows, in this order; a row may stand several times (beam search)."""
        if self._keys is not None and self._values is not None:
            self._keys = self._selected(self._keys, rows)
            self._values = self._selected(self._values, rows)

    def _selected(self, stored: Tensor, rows: Tensor) -> Tensor:
        """Those batch rows, with as much room as before; the spare room is not copied."""
        room = stored.new_empty(len(rows), *stored.shape[1:])
        torch.index_select(stored[:, :, : self.length], 0, rows, out=room[:, :, : self.length])
        return room

    @property
    def n_bytes(self) -> int:
        """Bytes of the columns in use (the spare room is not counted)."""
        if self.length == 0:
            return 0
        return sum(t.numel() * t.element_size() for t in (self.keys, self.values))


class KVCache:
    """The caches of a decoder: one `LayerCache` per block for self-, one for cross-attention.

    `length` is the number of target positions already seen, equal in all blocks.
    """

    def __init__(self, n_layers: int) -> None:
        self.self_attn = [LayerCache() for _ in range(n_layers)]
        self.cross_attn = [LayerCache() for _ in range(n_layers)]

    def block(self, layer: int) -> tuple[LayerCache, LayerCache]:
        """The two caches of one block, of self- and of cross-attention."""
        return self.self_attn[layer], self.cross_attn[layer]

    @property
    def length(self) -> int:
        return self.self_attn[0].length

    def select(self, rows: Int[Tensor, " new_batch"]) -> None:
        """Keep these batch rows in every layer, as `LayerCache.select`."""
        for layer in (*self.self_attn, *self.cross_attn):
            layer.select(rows)

    @property
    def n_bytes(self) -> int:
        """Bytes of all columns in use."""
        return sum(layer.n_bytes for layer in (*self.self_attn, *self.cross_attn))
