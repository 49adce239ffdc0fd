"""Reading what a component was sent, in Python as payload.js does it in the browser."""

import json
from typing import Any

import numpy as np

from explorer.components.matrices import BLANK
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


def unpack_matrices(data: bytes) -> list[dict[str, Any]]:
    """Of each matrix what it was sent: `codes` are the bytes of its cells, `cells` their texts or
    numbers, `words` the texts written in them."""
    head, arrays = unpack(data)
    found = []
    for number, panel in enumerate(head["panels"]):
        codes = arrays[f"cells{number}"]
        texts = np.array(panel["texts"], object)
        if f"said{number}" in arrays:
            cells = texts[arrays[f"said{number}"].view("<u2")[..., 0]]
        elif f"numbers{number}" in arrays:
            cells = arrays[f"numbers{number}"].view("<f4")[..., 0]
        else:
            cells = texts[np.maximum(codes.astype(int) - BLANK, 0)]
        words = None
        if panel["written"]:
            words = np.array(panel["written"], object)[
                arrays[f"written{number}"].view("<u2")[..., 0]
            ]
        found.append({**panel, "codes": codes, "cells": cells, "words": words})
    return found
