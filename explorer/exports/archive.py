"""Write a whole Trace to one .npz file (arrays and JSON metadata) and read it back.

Also tables for spreadsheets as CSV.
"""

import csv
import io
import json
import math
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy.lib import format as npy

from explorer.runs.edits import format_edits, parse_edits
from explorer.runs.trace import Trace
from models.config import ModelConfig
from models.hooks import LOGITS, AttentionSite, StackSite
from models.marks import Marks

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
MOST_BYTES = 1_000_000_000
"""Size limit for reading an archive, uncompressed: a Trace takes 0.2 to 40 MB."""


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


def from_npz(data: bytes) -> Trace:
    """Read a Trace that `to_npz` wrote; its arrays are read-only, as in a new Trace.

    Nothing is unpickled. Before unpacking, archives are refused if their declared size exceeds
    `MOST_BYTES` or an array is shorter than its header declares. Raises ValueError for anything
    other than such an archive.
    """
    try:
        _check_sizes(data)
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        meta = json.loads(str(arrays.pop(META)))
        for array in arrays.values():
            array.flags.writeable = False
        fields: dict[str, Any] = {name: arrays.pop(name) for name in _ARRAYS}
        arrays[LOGITS] = fields.pop("logits")
        fields |= {name: meta[name] for name in _PLAIN}
        fields |= {name: tuple(meta[name]) for name in _TUPLES}
        fields |= {name: parse_edits(meta[name]) for name in _EDITS}
        fields["config"] = ModelConfig.from_json(json.dumps(meta["config"]))
        fields["sites"] = tuple(AttentionSite(**site) for site in meta["sites"])
        fields["stacks"] = tuple(
            StackSite(**stack | {"reads_too": tuple(stack["reads_too"])})
            for stack in meta["stacks"]
        )
        fields["marks"] = _marks(meta["marks"])
        traced = Trace(activations=arrays, **fields)
        _check_lengths(traced)
    # RuntimeError: an encrypted member, or an unsupported compression method.
    except (
        KeyError,
        TypeError,
        ValueError,
        EOFError,
        OSError,
        RuntimeError,
        zipfile.BadZipFile,
    ) as error:
        raise ValueError(f"this is not the archive of a trace: {error}") from error
    return traced


def _marks(said: Mapping[str, Any]) -> Marks:
    source = said.get("source")
    ends = tuple(said.get("further_ends", ()))
    return Marks(**{**said, "further_ends": ends, "source": source and _marks(source)})


def _check_sizes(data: bytes) -> None:
    """Raise ValueError, before unpacking, if the archive would take too much memory."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        total = sum(member.file_size for member in archive.infolist())
        if total > MOST_BYTES:
            raise ValueError(f"it unpacks to {total:,} bytes; the limit is {MOST_BYTES:,}")
        for member in archive.infolist():
            with archive.open(member) as file:
                if npy.read_magic(file) != (1, 0):  # the version that numpy writes for these arrays
                    raise ValueError(f"{member.filename} is in another version of .npy")
                shape, _, dtype = npy.read_array_header_1_0(file)
            if math.prod(shape) * dtype.itemsize > member.file_size:
                raise ValueError(f"{member.filename} is shorter than it says")


def _check_lengths(traced: Trace) -> None:
    """Raise ValueError unless tokens, their validity and the logits have the same length."""
    for stream in ("src", "tgt"):
        tokens, names, valid = (
            getattr(traced, f"{stream}_{what}") for what in ("tokens", "str_tokens", "valid")
        )
        if not len(tokens) == len(names) == len(valid):
            raise ValueError(f"{stream} has {len(tokens)}, {len(names)} and {len(valid)} tokens")
    if len(traced.logits) != len(traced.tgt_tokens):
        raise ValueError(f"{len(traced.logits)} rows of logits, {len(traced.tgt_tokens)} tokens")


def to_csv(
    pattern: Float[np.ndarray, "query key"],
    mask: Bool[np.ndarray, "query key"],
    queries: Sequence[str],
    keys: Sequence[str],
) -> str:
    """One head as a table: keys across, queries down, blocked cells empty.

    A token that a spreadsheet would evaluate as a formula ("=1+1") is prefixed with an apostrophe.
    """
    cells = np.where(mask, np.char.mod("%.6g", pattern), "").tolist()
    rows = ([query, *row] for query, row in zip(queries, cells, strict=True))
    return to_rows(["", *map(_plain, keys)], rows)


def to_rows(names: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table with a header line; formulas are prefixed with an apostrophe, as in `to_csv`."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\r\n")
    table.writerow(names)
    for row in rows:
        table.writerow([_plain(cell) if isinstance(cell, str) else cell for cell in row])
    return file.getvalue()


def _plain(token: str) -> str:
    return f"'{token}" if token[:1] in ("=", "+", "-", "@", "\t", "\r") else token


def axes_record(traced: Trace) -> dict[str, object]:
    """The meaning of the axes [head, query, key] of each site's array, as values for JSON."""
    return {
        **{name: getattr(traced, name) for name in _PLAIN},
        "unknown": traced.unknown,
        **{name: format_edits(getattr(traced, name)) for name in _EDITS},
        **{
            stream: {
                "ids": getattr(traced, f"{stream}_tokens"),
                "tokens": getattr(traced, f"{stream}_str_tokens"),
                "valid": getattr(traced, f"{stream}_valid").tolist(),
            }
            for stream in ("src", "tgt")
        },
        "sites": [
            {name: getattr(site, name) for name in ("name", "stack", "layer", "kind")}
            | {"query": site.query_stream, "key": site.key_stream}
            | {"axes": ["head", "query", "key"]}
            for site in traced.sites
        ],
    }
