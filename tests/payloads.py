"""Reading what a component was sent, in Python as payload.js does it in the browser."""

import json
from typing import Any

import numpy as np

from explorer.components.payload import Bytes


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Bytes]]:
    """The inverse of `pack`: head and named matrices."""
    length = int.from_bytes(data[:4], "little")
    head = json.loads(data[4 : 4 + length])
    body = np.frombuffer(data, np.uint8, offset=4 + length)
    matrices = {}
    for name, entry in head.pop("arrays").items():
        size = int(np.prod(entry["shape"]))
        matrices[name] = body[entry["offset"] : entry["offset"] + size].reshape(entry["shape"])
    return head, matrices
