"""A whole Trace as one .npz file: every array, and a page of JSON that names them.

And one head as a table for a spreadsheet.
"""

import csv
import io
import json
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from explorer.runs.edits import format_edits
from explorer.runs.trace import Trace

META = "trace.json"  # not a hook name: those have no file ending
_PLAIN = ("model", "text", "output", "finished")
_TUPLES = (
    "src_tokens",
    "src_str_tokens",
    "tgt_tokens",
    "tgt_str_tokens",
    "unknown",
    "predicted_tokens",
    "predicted_str_tokens",
)
_EDITS = ("edits", "ignored_edits")
_ARRAYS = ("src_valid", "tgt_valid", "logits")


def to_npz(traced: Trace) -> bytes:
    """The Trace as a compressed .npz, readable by `np.load` alone, without pickle.

    Arrays are stored under their hook names, `src_valid`, `tgt_valid` and `logits`; everything else
    is JSON text under `trace.json`. Two exports of one Trace hold the same, but not the same bytes:
    a zip says when it was written.
    """
    meta = {name: getattr(traced, name) for name in (*_PLAIN, *_TUPLES)}
    meta |= {name: format_edits(getattr(traced, name)) for name in _EDITS}
    meta["config"] = json.loads(traced.config.to_json())
    meta["sites"] = [vars(site) for site in traced.sites]
    meta["stacks"] = [vars(stack) for stack in traced.stacks]
    meta["marks"] = vars(traced.marks)
    meta["predicts"] = traced.predicts
    arrays = {name: getattr(traced, name) for name in _ARRAYS}
    # Not among the activations a second time: the logits are the largest of all arrays.
    arrays |= {n: a for n, a in traced.activations.items() if a is not traced.logits}
    meta["logits_hook"] = next((n for n, a in traced.activations.items() if a is traced.logits), "")
    arrays[META] = np.array(json.dumps(meta, ensure_ascii=False))
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()


def to_csv(
    pattern: Float[np.ndarray, "query key"],
    mask: Bool[np.ndarray, "query key"],
    queries: Sequence[str],
    keys: Sequence[str],
) -> str:
    """One head as a table: keys across, queries down, blocked cells empty.

    A token that a spreadsheet would run as a formula ("=1+1") gets an apostrophe before it.
    """
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\r\n")
    table.writerow(["", *map(_plain, keys)])
    for token, weights, may in zip(queries, pattern, mask, strict=True):
        cells = (
            "" if not seen else f"{weight:.6g}" for weight, seen in zip(weights, may, strict=True)
        )
        table.writerow([_plain(token), *cells])
    return file.getvalue()


def _plain(token: str) -> str:
    return f"'{token}" if token[:1] in ("=", "+", "-", "@", "\t", "\r") else token


def axes_record(traced: Trace) -> dict[str, object]:
    """What the axes of an array [head, query, key] of each site mean, as JSON."""
    return {
        "model": traced.model,
        "text": traced.text,
        "output": traced.output,
        "finished": traced.finished,
        "unknown": traced.unknown,
        "edits": format_edits(traced.edits),
        "ignored_edits": format_edits(traced.ignored_edits),
        "src": {
            "ids": traced.src_tokens,
            "tokens": traced.src_str_tokens,
            "valid": traced.src_valid.tolist(),
        },
        "tgt": {
            "ids": traced.tgt_tokens,
            "tokens": traced.tgt_str_tokens,
            "valid": traced.tgt_valid.tolist(),
        },
        "sites": [
            {
                "name": site.name,
                "stack": site.stack,
                "layer": site.layer,
                "kind": site.kind,
                "query": site.query_stream,
                "key": site.key_stream,
                "axes": ["head", "query", "key"],
            }
            for site in traced.sites
        ],
    }
