"""JSON files of a model's folder, which a stranger may have written."""

import json
from pathlib import Path
from typing import Any

from models.checkpoint import CheckpointError
from models.refusals import Refusal

MOST_BYTES = 100_000_000
"""No file is larger: the vocabularies of the largest models take a third of it."""
LFS = "version https://git-lfs"
"""How a pointer of Git LFS begins, which lies where the file itself has not been fetched."""


def read_text(path: Path) -> str:
    """What a text file holds.

    Raises CheckpointError for one above MOST_BYTES and for a pointer of Git LFS, and OSError.
    """
    if (size := path.stat().st_size) > MOST_BYTES:
        megabytes, limit = f"{size / 1e6:,.0f}", f"{MOST_BYTES / 1e6:,.0f}"
        raise CheckpointError("large_json", file=path.name, size=megabytes, limit=limit)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError("not_json", file=path.name, reason=error) from error
    if text.startswith(LFS):
        raise CheckpointError("lfs_pointer", file=path.name)
    return text


def read_json(path: Path) -> Any:
    """What a JSON file says.

    Raises CheckpointError for no JSON, for more than MOST_BYTES and for nesting without end.
    """
    text = read_text(path)
    try:
        return json.loads(text)
    except ValueError as error:
        raise CheckpointError("not_json", file=path.name, reason=error) from error
    except RecursionError as error:
        raise CheckpointError("not_json", file=path.name, reason=Refusal("nested")) from error


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises CheckpointError as `read_json`, and for anything else."""
    values = read_json(path)
    if not isinstance(values, dict):
        raise CheckpointError("no_object", file=path.name)
    return values
