"""Run an untrusted program: `run` passes it to a process of its own.

The program may use Python without files, network, processes and classes of the host, 0.3 s and
16 MB, within a worker of Monty (`keeper`). Only numbers, and strings of bounded length, reach the
app. Programs cannot affect each other's answers.
"""

import atexit
import importlib.util
import json
import os
import queue
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from explorer.sandbox.apart import Apart

Kind = Literal[
    "call",
    "character",
    "depth",
    "empty",
    "large",
    "lines",
    "long",
    "memory",
    "missing",
    "outside",
    "raised",
    "syntax",
    "time",
]
MOST_CHARACTERS, MOST_LINES = 4_000, 120
MOST_KEEPERS, MOST_IDLE = 8, 4
"""Programs that run at once (further ones wait), and idle processes (40 MB each) that are kept."""
DEADLINE = 0.9
"""Seconds after which an unresponsive keeper is ended: more than all of its own limits."""
START = 20.0
"""Seconds after which a keeper is ended that has not given its first answer: imports included."""


@dataclass(frozen=True)
class Grid:
    """Cells of a matrix: calls with (query, key, *given), row by row.

    Queries count from `first`, as with a KV cache.
    """

    queries: int
    keys: int
    given: tuple[Any, ...] = ()
    first: int = 0


@dataclass(frozen=True)
class Fault:
    """Why a program gave no answer. Lines and columns count from 1; None if there is no position.

    `error` and `message` describe an exception of the program; for "outside", `message` is the
    requested name; for "character", the character. `case` is the number of calls before the failed
    one. `number` is the count that is too large.
    """

    kind: Kind
    error: str = ""
    message: str = ""
    line: int | None = None
    column: int | None = None
    case: int | None = None
    number: int = 0


@dataclass(frozen=True)
class Answer:
    """The result: a value for each call; and what the program printed.

    With a `fault`, only the calls before it have values.

    Values are None, bool, int, float, lists of them, or {"type": name} for anything else.
    """

    values: tuple[Any, ...] = ()
    fault: Fault | None = None
    printed: str = ""


def available() -> bool:
    """Whether the sandbox can run here.

    Always False on Windows, which has no process groups that can be ended at once.
    """
    return os.name == "posix" and importlib.util.find_spec("pydantic_monty") is not None


def refused(code: str) -> Fault | None:
    """Why a program is refused before it runs: its size, or its characters.

    Characters that override the text direction make a program look different from what it does.
    """
    if not code.strip():
        return Fault("empty")
    if len(code) > MOST_CHARACTERS:
        return Fault("long", number=len(code))
    lines = code.split("\n")
    if len(lines) > MOST_LINES:
        return Fault("lines", number=len(lines))
    for at, line in enumerate(lines, 1):
        for column, character in enumerate(line, 1):
            if character != "\t" and unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl"):
                name = unicodedata.name(character, "control character").lower()
                label = f"U+{ord(character):04X} ({name})"
                return Fault("character", message=label, line=at, column=column)
    return None


def run(
    code: str,
    name: str,
    *,
    grids: Sequence[Grid] = (),
    cases: Sequence[Sequence[Any]] = (),
    suspects: Sequence[str] = (),
) -> Answer:
    """Run a program, then call its function `name` for each cell of `grids`, and with each of
    `cases`; the values are returned as one flat sequence, in this order.

    With `suspects`, programs that each define a function `suspect`, it is called with each of those
    functions instead. Takes at most DEADLINE once it has a keeper. Raises FileNotFoundError if
    the optional package is not installed.
    """
    if fault := refused(code):
        return Answer(fault=fault)
    asked = {
        "code": code,
        "name": name,
        "grids": [asdict(grid) for grid in grids],
        "cases": cases,
        "suspects": suspects,
    }
    if not available():
        raise FileNotFoundError("running code needs the package pydantic-monty")
    keeper = _KEEPERS.get()
    try:
        reply = keeper.ask(json.dumps(asked).encode(), DEADLINE if keeper.is_there else START)
    finally:
        if sum(idle.is_there for idle in tuple(_KEEPERS.queue)) >= MOST_IDLE:
            keeper.end()  # it restarts on its next use
        _KEEPERS.put(keeper)
    count = sum(grid.queries * grid.keys for grid in grids) + len(cases)
    return Answer(fault=Fault("large")) if reply is None else _read(reply, len(suspects) or count)


def _read(reply: bytes, count: int) -> Answer:
    """A keeper's answer, with as many values as there were calls if nothing failed."""
    answer = json.loads(reply)
    fault = None if answer["fault"] is None else Fault(**answer["fault"])
    if fault is None and len(answer["values"]) != count:
        raise ValueError(f"{len(answer['values'])} values for {count} calls")
    return Answer(tuple(answer["values"]), fault, answer["printed"])


_KEEPERS: queue.LifoQueue[Apart] = queue.LifoQueue()
"""Keepers that are not in use, of which the last used is taken first; most are not started."""
for _ in range(MOST_KEEPERS):
    _KEEPERS.put(Apart("sandbox.keeper"))


@atexit.register
def _end() -> None:
    for keeper in _KEEPERS.queue:
        keeper.end()
