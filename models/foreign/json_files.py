"""Reading the untrusted JSON files of a model's folder."""

import json
from pathlib import Path
from typing import Any

from models.checkpoint import CheckpointError
from models.refusals import Refusal

MOST_BYTES = 100_000_000
"""The size limit: the vocabularies of the largest models take a third of it."""
LFS = "version https://git-lfs"
"""The beginning of a Git LFS pointer, which replaces a file that was not downloaded."""


def read_text(path: Path) -> str:
    """Read a text file.

    Raises CheckpointError if it is larger than MOST_BYTES, not UTF-8 or a Git LFS pointer, and
    OSError.
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
    """Parse a JSON file.

    Raises CheckpointError if it is not JSON, larger than MOST_BYTES or too deeply nested.
    """
    text = read_text(path)
    try:
        return json.loads(text)
    except ValueError as error:
        raise CheckpointError("not_json", file=path.name, reason=error) from error
    except RecursionError as error:
        raise CheckpointError("not_json", file=path.name, reason=Refusal("nested")) from error


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises CheckpointError as `read_json`, or if it is no object."""
    values = read_json(path)
    if not isinstance(values, dict):
        raise CheckpointError("no_object", file=path.name)
    return values
