"""The wire format of a view's data: one byte string of a JSON head followed by raw matrices.

Streamlit sends bytes unchanged only if they are all of a component's data, and JSON numbers take
several times the space, so head and matrices share one string: the length of the head (4 bytes,
little-endian), the head in UTF-8, then the bytes of every matrix.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.figures.matrix import Axis
from explorer.figures.theme import is_special, show
from explorer.glosses import glosses_in

Bytes = NDArray[np.uint8]
Floats = NDArray[np.floating[Any]]
Bools = NDArray[np.bool_]
Words = Mapping[str, str]

BLOCKED = 255
"""The byte of a blocked cell; 0 to 254 are weights."""


def pack(head: Mapping[str, Any], **matrices: Bytes) -> bytes:
    """Pack head and matrices into one byte string; adds `arrays` (name, offset, shape) and the
    `glosses` of its tokens to the head."""
    arrays, body = {}, []
    offset = 0
    for name, matrix in matrices.items():
        if matrix.dtype != np.uint8:
            raise ValueError(f"{name} is {matrix.dtype}, expected uint8")
        arrays[name] = {"offset": offset, "shape": list(matrix.shape)}
        offset += matrix.size
        body.append(matrix.tobytes())
    glosses = glosses_in(head)
    whole = {**head, **({"glosses": glosses} if glosses else {}), "arrays": arrays}
    text = json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()
    return b"".join((len(text).to_bytes(4, "little"), text, *body))


def encode_weights(weights: Floats, mask: Bools | None = None) -> Bytes:
    """Weights 0 to 1 as bytes round(254·√w), blocked cells as 255.

    The square root gives small weights finer steps: a byte distinguishes 0.1 % from 0.2 %, and the
    error is at most 0.4 percentage points. `mask` True = may attend, broadcastable to `weights`.
    Raises ValueError for weights outside 0 to 1.
    """
    if weights.size and not (weights.min() >= -1e-6 and weights.max() <= 1 + 1e-3):
        low, high = float(weights.min()), float(weights.max())
        raise ValueError(f"weights run from {low:.4g} to {high:.4g}, expected 0 to 1")
    codes = (254 * np.sqrt(np.clip(weights, 0, 1)) + 0.5).astype(np.uint8)
    if mask is None:
        return codes
    return np.where(np.broadcast_to(mask, weights.shape), codes, np.uint8(BLOCKED))


def tokens_head(tokens: Sequence[str]) -> dict[str, Any]:
    """A token sequence for a head: the displayed texts, and which of them are special tokens."""
    return {
        "tokens": [show(token) for token in tokens],
        "special": [int(is_special(token)) for token in tokens],
    }


def axis_head(axis: Axis) -> dict[str, Any]:
    """An axis for a head: its labels as `tokens_head`, blank ones empty, its titles and stream."""
    return {
        "tokens": ["" if label is None else show(label) for label in axis.labels],
        "special": [int(label is not None and is_special(label)) for label in axis.labels],
        "title": axis.title,
        "stream": axis.stream,
        "numbered": axis.numbered,
        "name": axis.name or axis.title,
    }
