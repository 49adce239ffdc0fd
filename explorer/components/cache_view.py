"""A key/value cache as a picture: one column per step, and fixed columns for the source."""

from collections.abc import Sequence

import numpy as np

from explorer.components.mount import view
from explorer.components.payload import (
    Bytes,
    Floats,
    Words,
    check_index,
    check_length,
    check_words,
    pack,
    tokens_head,
)

WORDS = (
    "label",
    "step",
    "self",
    "cross",
    "keys",
    "values",
    "layer",
    "columns",
    "bytes",
    "length",
    "spared",
)
"""The words that the view shows, by the names under which the caller passes them."""


def cache_view(data: bytes, *, key: str) -> None:
    """Show the cache that `pack_cache_view` packed; it is scrubbed in the browser."""
    view("cache_view")(key=key, data=data)


def pack_cache_view(
    keys: Floats,
    values: Floats,
    row: Sequence[str],
    n_bytes: Sequence[int],
    *,
    first: int = 0,
    cross_keys: Floats | None = None,
    cross_values: Floats | None = None,
    source: Sequence[str] = (),
    kept_heads: int | None = None,
    step: int = 0,
    words: Words,
) -> bytes:
    """The payload: lengths of vectors [layer, kv_head, pos], as bytes of their largest.

    After step i the row's columns 0 to first + i are there and take `n_bytes[i]`. `kept_heads` of
    the key/value heads are drawn as kept, the others as saved. Raises ValueError naming sizes that
    disagree.
    """
    n_layers, n_heads, n_row = keys.shape
    if values.shape != keys.shape:
        raise ValueError(f"values has shape {values.shape}, keys have {keys.shape}")
    check_length("row", len(row), n_row, "columns in keys")
    check_length("n_bytes", len(n_bytes), n_row - first, "steps")
    check_index("step", step, len(n_bytes), "steps")
    arrays = {"keys": _shades(keys), "values": _shades(values)}
    if cross_keys is not None and cross_values is not None:
        if cross_keys.shape != (n_layers, n_heads, len(source)):
            raise ValueError(
                f"cross_keys has shape {cross_keys.shape}, expected "
                f"{(n_layers, n_heads, len(source))} as keys and source are"
            )
        arrays |= {"cross_keys": _shades(cross_keys), "cross_values": _shades(cross_values)}
    head = {
        "row": {**tokens_head(row), "stream": "tgt"},
        "source": {**tokens_head(source), "stream": "src"} if len(arrays) > 2 else None,
        "layers": n_layers,
        "heads": n_heads,
        "kept": n_heads if kept_heads is None else kept_heads,
        "first": first,
        "n_bytes": list(n_bytes),
        "step": step,
        "words": check_words(WORDS, words),
    }
    return pack(head, **arrays)


def _shades(lengths: Floats) -> Bytes:
    """0 to 255, a share of the largest length."""
    top = float(lengths.max(initial=0.0)) or 1.0
    return (255 * lengths / top + 0.5).astype(np.uint8)
