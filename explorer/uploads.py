"""A model that a visitor uploads as a zip: which files of it are read, and how much of them.

A zip names its files as it likes, and says of their sizes what it likes. So no name in it becomes a
path: of the files beside its one config.json, those that a model consists of are written under the
names that this module knows; and bytes are counted while they are unpacked.
"""

import lzma
import os
import re
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from explorer.library import LoadedModel, open_model
from explorer.problems import InputProblem

VARIABLE = "HEADLIGHT_UPLOADS"
"""The environment variable that lets visitors upload models: 1. Off by default."""
MOST_BYTES = 64_000_000
"""Of a zip."""
MOST_UNPACKED = 2 * MOST_BYTES
"""Of everything in it that is read. Weights hardly shrink in a zip."""
MOST_DIRECTORY = 1_000_000
"""Bytes of a zip's list of files, which is read whole before anything else: 10,000 files."""

_CONFIG = "config.json"
_FILES = frozenset(
    {
        *(_CONFIG, "generation_config.json", "tokenizer.json"),
        *("tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"),
        *("model.safetensors", "model.safetensors.index.json", "vocab.json"),
        *("source.spm", "target.spm", "README.md", "CARD.md"),
    }
)
_SHARD = re.compile(r"model-[0-9]{5}-of-[0-9]{5}\.safetensors", re.ASCII)
_PICKLE = re.compile(r".*\.(bin|pt|pth|pkl|pickle|ckpt)", re.ASCII | re.IGNORECASE)
_END, _END_64 = b"PK\x05\x06", b"PK\x06\x07"
_CHUNK = 1 << 20
_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error)


def allowed() -> bool:
    """Whether the owner of this server lets visitors upload models.

    Raises ValueError where the environment says neither yes (1) nor no (0).
    """
    wanted = os.environ.get(VARIABLE, "0")
    if wanted not in ("0", "1"):
        raise ValueError(f"{VARIABLE} must be 1 or 0, not {wanted!r}")
    return wanted == "1"


def open_zip(name: str, file: BinaryIO) -> LoadedModel:
    """The model in an uploaded zip, whose files are gone again once it is open.

    It is called by the zip's name, letters, digits, - and _ of it. Raises InputProblem:
    `upload_too_large`, `upload_no_zip`, `upload_encrypted`, `upload_bomb`, `upload_nothing`,
    `upload_pickle`, and `broken_model` as `open_model`.
    """
    called = re.sub(r"[^\w-]+", "-", Path(name).stem, flags=re.ASCII).strip("-")[:40] or "model"
    with tempfile.TemporaryDirectory(prefix="headlight-", ignore_cleanup_errors=True) as place:
        folder = Path(place) / called
        folder.mkdir()
        _unpack(name, file, folder)
        loaded = open_model(folder)
        return replace(loaded, name=called, was_stored=loaded.stored)


def _unpack(name: str, file: BinaryIO, folder: Path) -> None:
    """Write a model's files out of a zip into a folder. Raises InputProblem."""
    size = file.seek(0, os.SEEK_END)
    if size > MOST_BYTES:
        raise InputProblem("upload_too_large", name=name, limit=MOST_BYTES, size=size)
    _check_directory(name, file, size)
    try:
        with zipfile.ZipFile(file) as archive:
            left = MOST_UNPACKED
            for known, member in _members(name, archive).items():
                if member.flag_bits & 1:
                    raise InputProblem("upload_encrypted", name=name)
                with (folder / known).open("wb") as out, archive.open(member) as packed:
                    while chunk := packed.read(min(_CHUNK, left + 1)):
                        left -= len(chunk)
                        if left < 0:
                            raise InputProblem("upload_bomb", name=name, limit=MOST_UNPACKED)
                        out.write(chunk)
    except InputProblem:
        raise
    # What zipfile raises: for a damaged file, an unknown way of packing (a RuntimeError), a member
    # cut short, without a name, or said to begin before the file.
    except (*_DAMAGED, RuntimeError, EOFError, OSError, ValueError, IndexError) as error:
        raise InputProblem("upload_no_zip", name=name) from error


def _check_directory(name: str, file: BinaryIO, size: int) -> None:
    """Raise InputProblem where a file is no zip, or its list of files alone would fill memory."""
    tail = min(size, 65_557)  # the end of a zip with the longest comment
    file.seek(size - tail)
    end = file.read(tail)
    at = end.rfind(_END)
    if at < 0 or at + 22 > len(end):
        raise InputProblem("upload_no_zip", name=name)
    large = end[max(0, at - 20) : at].startswith(_END_64)  # of 4 GB or 65,536 files
    if large or int.from_bytes(end[at + 12 : at + 16], "little") > MOST_DIRECTORY:
        raise InputProblem("upload_bomb", name=name, limit=MOST_UNPACKED)


def _members(name: str, archive: zipfile.ZipFile) -> Mapping[str, zipfile.ZipInfo]:
    """The files of the one model in a zip, by the names under which they are written."""
    members = [each for each in archive.infolist() if not each.is_dir()]
    folders = [each.filename[: -len(_CONFIG)] for each in members if _is(each, _CONFIG)]
    if not folders:
        raise InputProblem("upload_nothing", name=name)
    folder = min(folders, key=lambda each: (each.count("/"), each))  # the outermost
    found = dict(_beside(members, folder))
    if not any(each.endswith(".safetensors") for each in found):
        pickles = [each for each in members if _PICKLE.fullmatch(each.filename)]
        raise InputProblem("upload_pickle" if pickles else "upload_nothing", name=name)
    return found


def _is(member: zipfile.ZipInfo, name: str) -> bool:
    return member.filename.rpartition("/")[2] == name


def _beside(members: list[zipfile.ZipInfo], folder: str) -> Iterator[tuple[str, zipfile.ZipInfo]]:
    for each in members:
        rest = each.filename[len(folder) :] if each.filename.startswith(folder) else ""
        for known in _FILES:
            if rest == known:
                yield known, each
        if (shard := _SHARD.fullmatch(rest)) is not None:
            yield shard[0], each
