"""The KV cache as a picture: one column per step, and fixed columns for the source."""

from collections.abc import Sequence

import numpy as np

from explorer.components import payload


def pack_cache_view(
    keys: payload.Floats,
    values: payload.Floats,
    row: Sequence[str],
    n_bytes: Sequence[int],
    *,
    first: int = 0,
    cross_keys: payload.Floats | None = None,
    cross_values: payload.Floats | None = None,
    source: Sequence[str] = (),
    kept_heads: int | None = None,
    step: int = 0,
    words: payload.Words,
) -> bytes:
    """Pack the payload: vector lengths [layer, kv_head, pos], one byte each, scaled by the largest.

    After step i the cache holds columns 0 to first + i, which take `n_bytes[i]`. The first
    `kept_heads` key/value heads are drawn as stored, the others as saved memory.
    """
    n_layers, n_heads, _ = keys.shape
    arrays = {"keys": _shades(keys), "values": _shades(values)}
    if cross_keys is not None and cross_values is not None:
        arrays |= {"cross_keys": _shades(cross_keys), "cross_values": _shades(cross_values)}
    head = {
        "row": {**payload.tokens_head(row), "stream": "tgt"},
        "source": {**payload.tokens_head(source), "stream": "src"} if len(arrays) > 2 else None,
        "layers": n_layers,
        "heads": n_heads,
        "kept": n_heads if kept_heads is None else kept_heads,
        "first": first,
        "n_bytes": list(n_bytes),
        "step": step,
        "words": dict(words),
    }
    return payload.pack(head, **arrays)


def _shades(lengths: payload.Floats) -> payload.Bytes:
    """Lengths as 0 to 255, relative to the largest."""
    top = float(lengths.max(initial=0.0)) or 1.0
    return (255 * lengths / top + 0.5).astype(np.uint8)
