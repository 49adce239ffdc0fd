"""A whole Trace as one .npz file (arrays and JSON metadata), and tables as CSV."""

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import asdict

import numpy as np

from explorer.runs.edits import format_edits
from explorer.runs.trace import Trace
from models.hooks import LOGITS

META = "trace.json"  # not a hook name: those have no file extension
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
    """The Trace as a compressed .npz, readable by `np.load` without pickle.

    Arrays are stored under their hook names, `src_valid`, `tgt_valid` and `logits`; everything else
    is JSON text under `trace.json`. Two exports of one Trace differ in bytes, since a zip contains
    its time of creation.
    """
    meta = {name: getattr(traced, name) for name in (*_PLAIN, *_TUPLES)}
    meta |= {name: format_edits(getattr(traced, name)) for name in _EDITS}
    meta["config"] = json.loads(traced.config.to_json())
    meta["sites"] = [vars(site) for site in traced.sites]
    meta["stacks"] = [vars(stack) for stack in traced.stacks]
    meta["marks"] = asdict(traced.marks)
    meta["predicts"] = traced.predicts
    arrays = {name: getattr(traced, name) for name in _ARRAYS}
    # The logits have the name `logits` instead of their hook name, as in all earlier archives.
    arrays |= {name: array for name, array in traced.activations.items() if name != LOGITS}
    meta["logits_hook"] = LOGITS
    arrays[META] = np.array(json.dumps(meta, ensure_ascii=False))
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()


def to_rows(names: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table with a header line. Text that a spreadsheet would evaluate as a formula ("=1+1") is
    prefixed with an apostrophe."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\r\n")
    table.writerow(names)
    for row in rows:
        table.writerow([_plain(cell) if isinstance(cell, str) else cell for cell in row])
    return file.getvalue()


def _plain(token: str) -> str:
    return f"'{token}" if token[:1] in ("=", "+", "-", "@", "\t", "\r") else token
