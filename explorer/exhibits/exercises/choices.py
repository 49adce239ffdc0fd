"""Choices on the Exercises page, and the link format of programs."""

import base64
import json
import re
import zlib
from dataclasses import dataclass
from typing import ClassVar

from explorer.exhibits import PageChoices
from explorer.exhibits.choices import RefusedError, choice, unlinked

MOST_IDS = 200
"""Most tasks, or entries of the course, in a link; more than exist."""
MOST_CARRIED, MOST_UNPACKED = 12_000, 200_000
"""Most characters of all programs in a link, compressed and uncompressed."""
_ID = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)


def read_task(text: str) -> str:
    """Read the id of a task. Raises RefusedError for an unknown one."""
    from explorer.analysis.exercises.tasks import task_of  # imported here to keep other pages fast

    if task_of(text) is None:
        raise RefusedError(text)
    return text


def read_ids(text: str) -> tuple[str, ...]:
    """Read ids, `causal~softmax`, in their order; each once. Raises RefusedError."""
    names = text.split("~") if text else []
    if len(names) > MOST_IDS or not all(_ID.fullmatch(name) for name in names):
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
        programs = json.loads(unpacking.decompress(packed, MOST_UNPACKED))
        json.dumps(programs, ensure_ascii=False).encode()  # lone surrogates cannot be encoded
    except (ValueError, zlib.error, RecursionError) as problem:
        raise RefusedError(text[:40]) from problem
    if not isinstance(programs, dict) or not all(
        _ID.fullmatch(name) and isinstance(code, str) for name, code in programs.items()
    ):
        raise RefusedError(text[:40])
    return tuple(programs.items())[:MOST_IDS]


def write_programs(programs: tuple[tuple[str, str], ...]) -> str:
    """Compress programs for a link."""
    if not programs:
        return ""
    payload = json.dumps(dict(programs), ensure_ascii=False, separators=(",", ":")).encode()
    packing = zlib.compressobj(9, wbits=-15)
    packed = packing.compress(payload) + packing.flush()
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


@dataclass(frozen=True)
class ExercisesChoices(PageChoices):
    """`task` is the open task ("" is the first), `solved` the solved ones.

    `programs` are answers received in a link, by task; `solver` is the name in earlier links.
    `drafts` are the user's own programs, by task, which stay in the session until a link with them
    is requested. `helped` counts the hints shown, by task. `planted` is the task and the program
    that the user last put into the model.
    """

    parts: ClassVar[dict[str, tuple[str, ...]]] = {
        "task": ("exercises.asked", "exercises.planted"),
        "overview": ("tour.tasks",),
        "sheets": ("tour.learners",),
    }
    task: str = choice("", read_task)
    solved: tuple[str, ...] = choice((), read_ids, "~".join)
    programs: tuple[tuple[str, str], ...] = choice((), read_programs, write_programs)
    solver: str = choice("", str)
    drafts: tuple[tuple[str, str], ...] = unlinked(())
    helped: tuple[tuple[str, int], ...] = unlinked(())
    planted: tuple[str, str] | None = unlinked(None)
