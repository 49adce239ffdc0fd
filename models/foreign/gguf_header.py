"""The header of a GGUF file: scalar values and model size, without the vocabulary or tensors.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import math
import struct
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from models.checkpoint import CheckpointError
from models.refusals import Refusal

ENDING = ".gguf"
INSTALL = "pip install 'gguf>=0.17,<1'"
SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
STRING, ARRAY, MOST_AXES = 8, 9, 8
USUAL_ALIGNMENT = 32  # bytes; the tensors begin at a multiple
"""SCALARS: types of values in a header, as struct formats; the others are string and array."""


def header(path: Path) -> tuple[dict[str, Any], int]:
    """The scalar values of a file's header and the number of elements in its tensors, much faster
    than reading the vocabulary. Raises CheckpointError if the header is unreadable or the file is
    truncated."""
    require_gguf(path)
    try:
        with path.open("rb") as opened, mmap(opened.fileno(), 0, access=ACCESS_READ) as data:
            return _Header(data).read()
    except struct.error as error:
        reason = Refusal("ends_early")
        raise CheckpointError("broken_gguf", file=path.name, reason=reason) from error
    except (ValueError, KeyError, IndexError, OverflowError) as error:
        raise CheckpointError("broken_gguf", file=path.name, reason=error) from error


class _Header:
    def __init__(self, data: mmap) -> None:
        self.data, self.at = data, 4

    def read(self) -> tuple[dict[str, Any], int]:
        from gguf import GGML_QUANT_SIZES  # per kind: elements and bytes of a block

        self._scalar("I")  # the version
        n_tensors, n_values = self._scalar("Q"), self._scalar("Q")
        values = {}
        for _ in range(n_values):
            name = self._string()
            values[name] = self._value(self._scalar("I"))
        total = last = 0
        for _ in range(n_tensors):
            self._string()
            n_axes = self._scalar("I")
            if n_axes > MOST_AXES:
                raise Refusal("gguf_axes", count=n_axes)
            count = math.prod(self._scalar("Q") for _ in range(n_axes))
            total += count
            in_block, n_bytes = GGML_QUANT_SIZES[self._scalar("I")]
            last = max(last, self._scalar("Q") + count // in_block * n_bytes)
        step = values.get("general.alignment") or USUAL_ALIGNMENT
        if -(-self.at // step) * step + last > len(self.data):
            raise Refusal("ends_early")
        return {name: value for name, value in values.items() if value is not None}, total

    def _scalar(self, kind: str) -> Any:
        (value,) = struct.unpack_from(f"<{kind}", self.data, self.at)
        self.at += struct.calcsize(f"<{kind}")
        return value

    def _string(self) -> str:
        size = self._scalar("Q")
        if size > len(self.data) - self.at:
            raise Refusal("gguf_string", size=size)
        self.at += size
        return self.data[self.at - size : self.at].decode("utf-8", "replace")

    def _value(self, kind: int) -> Any:
        """One value; arrays are skipped and give None."""
        if kind == STRING:
            return self._string()
        if kind != ARRAY:
            return self._scalar(SCALARS[kind])
        inner, n = self._scalar("I"), self._scalar("Q")
        if inner in SCALARS:
            self.at += n * struct.calcsize(f"<{SCALARS[inner]}")
            return None
        if inner != STRING:
            raise Refusal("gguf_array", kind=inner)
        for _ in range(n):
            self.at += struct.unpack_from("<Q", self.data, self.at)[0] + 8
        return None


def require_gguf(path: Path) -> None:
    """Raise CheckpointError if a file is not a GGUF file or the package `gguf` is missing."""
    with path.open("rb") as opened:
        if opened.read(4) != b"GGUF":
            raise CheckpointError("no_gguf", file=path.name)
    try:
        import gguf  # noqa: F401
    except ImportError as error:
        raise CheckpointError("no_gguf_package", file=path.name, command=INSTALL) from error


def gguf_in(path: Path) -> Path | None:
    """The path itself if it is a GGUF file, or the only one in a folder; None otherwise."""
    if path.suffix == ENDING and path.is_file():
        return path
    inside = sorted(path.glob(f"*{ENDING}")) if path.is_dir() else []
    return inside[0] if len(inside) == 1 else None
