"""Choices on the Workshop page, and the link format of programs."""

import base64
import json
import re
import zlib
from dataclasses import dataclass
from typing import ClassVar

from explorer.exhibits.choices import RefusedError, choice

MOST_TASKS = 200
"""Most tasks in a link; more than exist."""
MOST_NAME = 40
"""Most characters of a name; longer ones are cut."""
MOST_CARRIED, MOST_UNPACKED = 12_000, 200_000
"""Most characters of all programs in a link, compressed and uncompressed."""
_ID = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)


def read_ids(text: str) -> tuple[str, ...]:
    """Read the ids of tasks, `causal~softmax`; each once. Raises RefusedError."""
    names = text.split("~") if text else []
    if len(names) > MOST_TASKS or not all(_ID.fullmatch(name) for name in names):
        raise RefusedError(text)
    return tuple(dict.fromkeys(names))


def read_programs(text: str) -> tuple[tuple[str, str], ...]:
    """Read (task, program) pairs that `write_programs` packed. Raises RefusedError.

    The uncompressed size is limited before decompression.
    """
    if not text:
        return ()
    if len(text) > MOST_CARRIED:
        raise RefusedError("…")
    try:
        packed = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        unpacking = zlib.decompressobj(wbits=-15)
        said = json.loads(unpacking.decompress(packed, MOST_UNPACKED))
        json.dumps(said, ensure_ascii=False).encode()  # lone surrogates cannot be encoded
    except (ValueError, zlib.error, RecursionError) as problem:
        raise RefusedError(text[:40]) from problem
    if not isinstance(said, dict) or not all(
        _ID.fullmatch(name) and isinstance(code, str) for name, code in said.items()
    ):
        raise RefusedError(text[:40])
    return tuple(said.items())[:MOST_TASKS]


def write_programs(programs: tuple[tuple[str, str], ...]) -> str:
    """Compress programs for a link."""
    if not programs:
        return ""
    said = json.dumps(dict(programs), ensure_ascii=False, separators=(",", ":")).encode()
    packing = zlib.compressobj(9, wbits=-15)
    packed = packing.compress(said) + packing.flush()
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def _name(text: str) -> str:
    return " ".join(text.split())[:MOST_NAME].strip()


@dataclass(frozen=True)
class WorkshopChoices:
    """`task` is the open task ("" is the first), `solved` the solved ones.

    `programs` are answers received in a link, by task; `solver` is the name entered with them. The
    user's own programs stay in the session until a link with them is requested.
    """

    parts: ClassVar[tuple[str, ...]] = ("task", "overview", "sheets", "paper")
    task: str = choice("", str)
    solved: tuple[str, ...] = choice((), read_ids, "~".join)
    programs: tuple[tuple[str, str], ...] = choice((), read_programs, write_programs)
    solver: str = choice("", _name)
