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
        self._stored: Tensor | None = None  # [keys and values, batch, kv_head, room, d_head]
        self.length = 0

    def append(
        self,
        k: Float[Tensor, "batch kv_head new d_head"],
        v: Float[Tensor, "batch kv_head new d_head"],
    ) -> tuple[
        Float[Tensor, "batch kv_head pos d_head"], Float[Tensor, "batch kv_head pos d_head"]
    ]:
        """Store the new columns and return all of them, old and new."""
        batch, kv_head, new, d_head = k.shape
        end = self.length + new
        if self._stored is None or self._stored.shape[3] < end:
            larger = k.new_empty(2, batch, kv_head, max(16, 2 * end), d_head)
            if self._stored is not None:
                larger[:, :, :, : self.length] = self._stored[:, :, :, : self.length]
            self._stored = larger
        self._stored[0, :, :, self.length : end] = k
        self._stored[1, :, :, self.length : end] = v
        self.length = end
        return self.keys, self.values

    @property
    def keys(self) -> Tensor:
        """[batch, kv_head, pos, d_head]. Raises ValueError while the cache is empty."""
        return self._held(0)

    @property
    def values(self) -> Tensor:
        """[batch, kv_head, pos, d_head]. Raises ValueError while the cache is empty."""
        return self._held(1)

    def _held(self, which: int) -> Tensor:
        if self._stored is None:
            raise ValueError("the cache is empty: append to it first")
        return self._stored[which, :, :, : self.length]

    def select(self, rows: Int[Tensor, " new_batch"]) -> None:
        """Keep these batch rows, in this order; a row may stand several times (beam search).

        There is as much room as before; the spare room is not copied.
        """
        if self._stored is not None:
            _, _, *sizes = self._stored.shape
            chosen = self._stored.new_empty(2, len(rows), *sizes)
            held, out = (tensor[:, :, :, : self.length] for tensor in (self._stored, chosen))
            torch.index_select(held, 1, rows, out=out)
            self._stored = chosen

    @property
    def n_bytes(self) -> int:
        """Bytes of the columns in use (the spare room is not counted)."""
        return 0 if self.length == 0 else 2 * self.keys.numel() * self.keys.element_size()


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
