"""Whether an unreadable safetensors file is truncated, or a Git LFS pointer."""

import json
from pathlib import Path

from models.checkpoint import CheckpointError
from models.foreign.json_files import LFS

_LENGTH = 8  # bytes of the header's length; the header and the tensors follow
_MOST_HEADER = 100_000_000  # the largest header that safetensors reads


def require_all_of(path: Path) -> None:
    """Raise CheckpointError if a safetensors file is a Git LFS pointer (`lfs_pointer`) or has fewer
    bytes than its header requires (`cut_short`); OSError if it cannot be read."""
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
    """Total size of the tensors in bytes according to the header; 0 if it cannot be parsed."""
    try:
        listed = json.loads(header)
        return max(int(listed[key]["data_offsets"][1]) for key in listed if key != "__metadata__")
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return 0
