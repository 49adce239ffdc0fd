"""The header of a GGUF file: its values, and where its tensors are. No tensor is read.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. A model may be stored in
several parts, NAME-00001-of-00002.gguf and so on; the first one has all values.
"""

import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
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
_PART = re.compile(rf"-(\d{{5}})-of-(\d{{5}})\{ENDING}$")
_PICTURES = re.compile(r"(^|[-_.])mmproj([-_.]|$)", re.IGNORECASE)
"""Files with the part of a model that reads pictures, which llama.cpp stores apart."""


@dataclass(frozen=True)
class StoredBlocks:
    """Where a tensor is: its file, its bytes there, its kind of blocks and its shape."""

    file: Path
    at: int
    size: int
    kind: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Header:
    """The values of a file, and its tensors by name; `total` is their number of elements."""

    values: dict[str, Any]
    tensors: dict[str, StoredBlocks]

    @property
    def total(self) -> int:
        return sum(math.prod(tensor.shape) for tensor in self.tensors.values())


def header(path: Path, arrays: bool = True) -> Header:
    """Read the header of a file and of its further parts; without `arrays`, those are None.

    Raises CheckpointError if a header is unreadable, or a file is truncated or missing.
    """
    parts = [_header(file, arrays) for file in _parts(path)]
    values, tensors = parts[0].values, dict[str, StoredBlocks]()
    if (count := values.get("split.count") or 1) > len(parts):
        raise CheckpointError("gguf_part", file=path.name, count=count)
    for part in parts:
        if twice := tensors.keys() & part.tensors.keys():
            name = min(twice)
            raise CheckpointError("twice", file=path.name, tensor=name, other=name)
        tensors |= part.tensors
    return Header(values, tensors)


def _parts(path: Path) -> Iterator[Path]:
    named = _PART.search(path.name)
    count = int(named[2]) if named else 1
    for number in range(1, count + 1):
        name = f"{path.name[: named.start()]}-{number:05d}-of-{count:05d}{ENDING}" if named else ""
        part = path.with_name(name) if name else path
        if name and not part.is_file():
            raise CheckpointError("gguf_part", file=part.name, count=count)
        yield part


def _header(path: Path, arrays: bool) -> Header:
    require_gguf(path)
    try:
        with path.open("rb") as opened, mmap(opened.fileno(), 0, access=ACCESS_READ) as data:
            return _Reader(path, data, arrays).read()
    except struct.error as error:
        reason = Refusal("ends_early")
        raise CheckpointError("broken_gguf", file=path.name, reason=reason) from error
    except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise CheckpointError("broken_gguf", file=path.name, reason=error) from error


class _Reader:
    def __init__(self, path: Path, data: mmap, arrays: bool) -> None:
        self.path, self.data, self.at, self.arrays = path, data, 4, arrays

    def read(self) -> Header:
        from gguf import GGML_QUANT_SIZES  # per kind: elements and bytes of a block

        self._scalar("I")  # the version
        n_tensors, n_values = self._scalar("Q"), self._scalar("Q")
        values: dict[str, Any] = {}
        for _ in range(n_values):
            name = self._string()
            values[name] = self._value(self._scalar("I"))
        tensors: dict[str, StoredBlocks] = {}
        for _ in range(n_tensors):
            name, n_axes = self._string(), self._scalar("I")
            if n_axes > MOST_AXES:
                raise Refusal("gguf_axes", tensor=name, count=n_axes, limit=MOST_AXES)
            shape = tuple(self._scalar("Q") for _ in range(n_axes))[::-1]
            kind, at = self._scalar("I"), self._scalar("Q")
            in_block, n_bytes = GGML_QUANT_SIZES[kind]
            if name in tensors or (shape and shape[-1] % in_block):
                raise Refusal("gguf_tensor", tensor=name)
            size = math.prod(shape) // in_block * n_bytes
            tensors[name] = StoredBlocks(self.path, at, size, kind, shape)
        step = values.get("general.alignment") or USUAL_ALIGNMENT
        begin = -(-self.at // step) * step
        placed = {
            name: StoredBlocks(entry.file, begin + entry.at, entry.size, entry.kind, entry.shape)
            for name, entry in tensors.items()
        }
        if max((entry.at + entry.size for entry in placed.values()), default=begin) > len(
            self.data
        ):
            raise Refusal("ends_early")
        return Header({name: entry for name, entry in values.items() if entry is not None}, placed)

    def _scalar(self, kind: str) -> Any:
        (value,) = struct.unpack_from(f"<{kind}", self.data, self.at)
        self.at += struct.calcsize(f"<{kind}")
        return value

    def _string(self) -> str:
        size = self._scalar("Q")
        if size > len(self.data) - self.at:
            raise Refusal("gguf_string", size=size)
        self.at += size
        return self.data[self.at - size : self.at].decode("utf-8")

    def _value(self, kind: int) -> Any:
        if kind == STRING:
            return self._string()
        if kind != ARRAY:
            return self._scalar(SCALARS[kind])
        inner, n = self._scalar("I"), self._scalar("Q")
        if inner in SCALARS:
            begin, self.at = self.at, self.at + n * struct.calcsize(f"<{SCALARS[inner]}")
            if self.at > len(self.data):
                raise Refusal("ends_early")
            form = f"<{n}{SCALARS[inner]}"
            return list(struct.unpack_from(form, self.data, begin)) if self.arrays else None
        if inner != STRING:
            raise Refusal("gguf_array", kind=inner)
        if self.arrays:
            return [self._string() for _ in range(n)]
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


def models_among(files: list[Path]) -> list[Path]:
    """Of these GGUF files, one for each model: the first of its parts, and none for pictures."""
    texts = [file for file in files if not _PICTURES.search(file.stem)]
    named = ((file, _PART.search(file.name)) for file in texts)
    return [file for file, part in named if part is None or int(part[1]) == 1] or texts[:1]


def gguf_in(path: Path) -> Path | None:
    """The path itself if it is a GGUF file, or the only model in a folder; None otherwise."""
    if path.suffix == ENDING and path.is_file():
        return path
    inside = models_among(sorted(path.glob(f"*{ENDING}"))) if path.is_dir() else []
    return inside[0] if len(inside) == 1 else None
