"""The process that reads an uploaded zip and writes only the files that a model consists of.

The names and sizes in a zip are untrusted. So no name in it becomes a path: the files next to its
one config.json are written under the names that this module knows, and
bytes are counted while they are unpacked. Run by `apart`: one line of JSON in, one out.
"""

import json
import lzma
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from explorer.problems import InputProblem
from explorer.sandbox.bounds import answer_one

ROOM = 256_000_000
"""Memory limit in bytes: the list of files alone may take some 20 MB, unpacked by `zipfile`."""
SECONDS = 20
MOST_DIRECTORY = 1_000_000
"""Maximum bytes of a zip's list of files, which is read whole first: 10,000 files."""
MOST_HEADER = 2_000_000
"""Maximum bytes of the list of tensors in a weight file: some 20,000 tensors."""
MOST_TEXT = 1_000_000
"""Maximum bytes of a file that the app reads as text or JSON, unless MOST_OF names another."""
MOST_OF = {
    "tokenizer.json": 64_000_000,  # read by `tokenizing`, never by the app
    "source_tokenizer.json": 64_000_000,
    "source.spm": 16_000_000,
    "target.spm": 16_000_000,
    "vocab.json": 16_000_000,
    "target_vocab.json": 16_000_000,
    "tokenizer_config.json": 8_000_000,  # it lists every added token
    "model.safetensors.index.json": 8_000_000,
}

CONFIG, ADAPTER = "config.json", "adapter_config.json"
MOST_NAME = 200
"""Maximum characters of a base model's name that is shown."""
FILES = frozenset(
    {
        *(CONFIG, "generation_config.json", "tokenizer.json"),
        *("tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"),
        *("model.safetensors", "model.safetensors.index.json", "vocab.json"),
        *("source.spm", "target.spm", "target_vocab.json", "source_tokenizer.json"),
        *("README.md", "CARD.md"),
    }
)
WEIGHTS = re.compile(r"model(-[0-9]{5}-of-[0-9]{5})?\.safetensors", re.ASCII)
_PICKLE = re.compile(r".*\.(bin|pt|pth|pkl|pickle|ckpt)", re.ASCII | re.IGNORECASE)
_END, _END_64 = b"PK\x05\x06", b"PK\x06\x07"
_CHUNK = 1 << 20
_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error)


def unpack(file: BinaryIO, folder: Path, most: int) -> None:
    """Write a model's files, at most `most` bytes in total, into a folder. Raises InputProblem."""
    size = file.seek(0, os.SEEK_END)
    _check_directory(file, size)
    try:
        with zipfile.ZipFile(file) as archive:
            left = most
            for known, member in _members(archive).items():
                if member.flag_bits & 1:
                    raise InputProblem("upload_encrypted")
                left -= _write(archive, member, folder / known, left)
    except InputProblem:
        raise
    # Raised by zipfile: for a damaged file, an unknown compression (a RuntimeError), a member
    # that is truncated, has no name, or claims to begin before the file.
    except (*_DAMAGED, RuntimeError, EOFError, OSError, ValueError, IndexError) as error:
        raise InputProblem("upload_no_zip") from error


def _write(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path, left: int) -> int:
    """Unpack one file; returns its bytes, at most `left`. Raises InputProblem."""
    weights = WEIGHTS.fullmatch(path.name)
    most = left if weights else MOST_OF.get(path.name, MOST_TEXT)
    size, allowed = 0, min(left, most)
    with path.open("wb") as out, archive.open(member) as packed:
        while chunk := packed.read(min(_CHUNK, allowed - size + 1)):
            if weights and not size and int.from_bytes(chunk[:8], "little") > MOST_HEADER:
                raise InputProblem("upload_tensors", limit=MOST_HEADER)
            size += len(chunk)
            if size > allowed:
                if allowed == left:
                    raise InputProblem("upload_bomb")
                raise InputProblem("upload_file", file=path.name, limit=most)
            out.write(chunk)
    return size


def _check_directory(file: BinaryIO, size: int) -> None:
    """Raise InputProblem if this is not a zip, or if its list of files would fill memory."""
    tail = min(size, 65_557)  # the end record with the longest comment
    file.seek(size - tail)
    end = file.read(tail)
    at = end.rfind(_END)
    if at < 0 or at + 22 > len(end):
        raise InputProblem("upload_no_zip")
    large = end[max(0, at - 20) : at].startswith(_END_64)  # zip64: 4 GB or 65,536 files
    if large or int.from_bytes(end[at + 12 : at + 16], "little") > MOST_DIRECTORY:
        raise InputProblem("upload_bomb")


def _members(archive: zipfile.ZipFile) -> Mapping[str, zipfile.ZipInfo]:
    """The files of the one model in a zip, by the names that they are written under."""
    members = [entry for entry in archive.infolist() if not entry.is_dir()]
    folders = [entry.filename[: -len(CONFIG)] for entry in members if _is(entry, CONFIG)]
    if not folders:
        _require_no_adapter(archive, members)
        raise InputProblem("upload_nothing")
    folder = min(folders, key=lambda entry: (entry.count("/"), entry))  # the outermost
    files = dict(_beside(members, folder))
    if not any(entry.endswith(".safetensors") for entry in files):
        _require_no_adapter(archive, members)
        pickles = [entry for entry in members if _PICKLE.fullmatch(entry.filename)]
        raise InputProblem("upload_pickle" if pickles else "upload_nothing")
    return files


def _require_no_adapter(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> None:
    """Raise InputProblem, with the base model's name, if the zip contains an adapter."""
    for member in members:
        if _is(member, ADAPTER):
            with archive.open(member) as packed:
                config = json.loads(packed.read(MOST_TEXT))
            base = config.get("base_model_name_or_path") if isinstance(config, dict) else None
            raise InputProblem("upload_adapter", base=str(base or "?")[:MOST_NAME])


def _is(member: zipfile.ZipInfo, name: str) -> bool:
    return member.filename.rpartition("/")[2] == name


def _beside(members: list[zipfile.ZipInfo], folder: str) -> Iterator[tuple[str, zipfile.ZipInfo]]:
    for member in members:
        rest = member.filename[len(folder) :] if member.filename.startswith(folder) else ""
        for known in FILES:
            if rest == known:
                yield known, member
        if (weights := WEIGHTS.fullmatch(rest)) is not None:
            yield weights[0], member


def answered(file: str, folder: str, most: int) -> dict[str, Any]:
    """Unpack a zip into a folder; nothing to tell. Raises InputProblem."""
    with Path(file).open("rb") as packed:
        unpack(packed, Path(folder), most)
    return {}


if __name__ == "__main__":
    answer_one(answered, ROOM, SECONDS, "most")
