"""Whether a file that is no readable safetensors file was cut short, or never fetched."""

import json
from pathlib import Path

from models.checkpoint import CheckpointError
from models.foreign.json_files import LFS

_LENGTH = 8  # bytes that say how long the header is; the header follows, and then the tensors
_MOST_HEADER = 100_000_000  # safetensors reads no longer one


def require_all_of(path: Path) -> None:
    """Raise CheckpointError where a safetensors file is a pointer of Git LFS (`lfs_pointer`), or
    has fewer bytes than its header says (`cut_short`); OSError where it cannot be read."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(len(LFS))
        if start == LFS.encode():
            raise CheckpointError("lfs_pointer", file=path.name)
        n_header = int.from_bytes(start[:_LENGTH], "little")
        wanted = _LENGTH + n_header
        if len(start) < _LENGTH or n_header > _MOST_HEADER:
            return
        if size >= wanted:
            file.seek(_LENGTH)
            wanted += _n_bytes(file.read(n_header))
    if size < wanted:
        there, all_of_it = f"{size:,}", f"{wanted:,}"
        raise CheckpointError("cut_short", file=path.name, size=there, wanted=all_of_it)


def _n_bytes(header: bytes) -> int:
    """The bytes of all tensors by a file's header, 0 where it cannot be read."""
    try:
        listed = json.loads(header)
        return max(int(listed[key]["data_offsets"][1]) for key in listed if key != "__metadata__")
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return 0
