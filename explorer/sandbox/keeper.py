"""The process that passes an untrusted program to Monty and reads its answer.

Run by `apart`, with lines of JSON as input and output. Monty is a Python interpreter in Rust
without files, network or processes; each program runs in a Monty worker process, within LIMITS.
This process is between that worker and the app: a program's return values are unpacked here,
where memory is limited, and never in the app. (A list that contains one list ten times, nested
eight times, is a few hundred bytes there and 17 GB here.)

The worker runs nothing but the program. It receives expressions that call the program's function
with literals, so the program cannot change anything else.
"""

import json
import random
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import pydantic_monty as monty

from explorer.sandbox.bounds import bounded

LIMITS: monty.ResourceLimits = {
    "max_feed_duration_secs": 0.3,
    "max_memory": 16_000_000,
    "max_recursion_depth": 200,
    "max_suspensions": 0,  # every exit from the sandbox counts: names of the host, files, clocks
    "max_total_sleep_secs": 0.0,
}
GRACE = 0.2
"""Seconds after the time limit at which an unresponsive worker is killed."""
ROOM = 48_000_000
"""Bytes that this process may use in addition to its initial memory, and each worker as well."""
MOST_PRINTED, MOST_SAID, MOST_ANSWER = 2_000, 300, 400_000
"""Maximum characters of printed output, of an error message, and of the answer as JSON."""

MOST_NAME, MOST_DEPTH, MOST_LENGTH = 40, 3, 1_000
"""Maximum characters of a type's name, nesting depth of lists, and length of a list."""
TIME = 0.6
"""Seconds after which no further call is begun; the app ends this process later."""
POLICY: monty.OSPolicy = {
    "datetime": datetime(2000, 1, 1, tzinfo=UTC),
    "sleep": "zero",
    "random_start": {"seed": 0},
}
"""A frozen clock, no sleeping, and seeded randomness: an answer depends only on the code."""
PROGRAM = "<python-input-0>"
"""Monty's name for the first input of a session: here the user's program."""


def answered(pool: monty.Monty, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Run `code`, then call its function `name` for every cell of `grids` and with all `cases`.

    With `suspects`, programs that each define `suspect`, the function is called with those
    functions instead. The answer holds `values`, only those before the `fault` if there is one, and
    what the program `printed`.
    """
    begun, code, name = time.monotonic(), asked["code"], asked["name"]
    if asked["suspects"]:
        return _judged(pool, code, name, asked["suspects"], begun)
    parts = [*_grids(name, asked["grids"]), *(f"[{item}]" for item in _calls(name, asked["cases"]))]
    run = _Run(pool, code).call([f"[{', '.join(parts)}]"])
    if run.fault is None:
        values = [plain(item) for item in chain.from_iterable(run.values[0])]
        return _reply(values, None, run.printed)
    fault, values = run.fault, []
    if fault["kind"] in ("raised", "call"):
        # Repeat call by call, so that the calls before the failed one have values.
        cells = chain.from_iterable(map(_cells, asked["grids"]))
        calls = _calls(name, chain(cells, asked["cases"]))
        again = _Run(pool, code).call(calls, begun + TIME)
        if again.fault is not None:
            values = [plain(item) for item in again.values]
            fault["case"] = len(values)
    return _reply(values, fault, run.printed)


def _judged(
    pool: monty.Monty, code: str, name: str, suspects: Sequence[str], begun: float
) -> dict[str, Any]:
    """A check's verdict on each suspect. A failed assertion is a verdict.

    Each is judged in a session of its own, and in random order, so that a program cannot learn
    anything by counting its calls or reading a clock.
    """
    runs: dict[int, _Run] = {}
    for at in random.SystemRandom().sample(range(len(suspects)), len(suspects)):
        runs[at] = run = _Run(pool, code, suspects[at])
        run.call([f"{name}(suspect)"])
        if run.fault is None and time.monotonic() > begun + TIME:
            run.fault = {"kind": "time"}
        if run.fault is not None and run.fault["kind"] == "time":
            break
        if run.fault is not None and run.fault.get("error") == "AssertionError":
            run.fault, run.values = None, [False]
    ordered = [run for _, run in sorted(runs.items())]
    printed = "".join(run.printed for run in ordered)[:MOST_PRINTED]
    fault = next((run.fault for run in ordered if run.fault is not None), None)
    values = [] if fault is not None else [plain(run.values[0]) for run in ordered]
    return _reply(values, fault, printed)


def _reply(values: list[Any], fault: Mapping[str, Any] | None, printed: str) -> dict[str, Any]:
    if len(json.dumps(values)) > MOST_ANSWER:
        values, fault = [], {"kind": "large"}
    return {"values": values, "fault": fault, "printed": printed}


def _calls(name: str, cases: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Expressions that call the function, one per case, with copies of its arguments."""
    for case in cases:
        yield f"{name}({', '.join(map(repr, case))})"


def _grids(name: str, grids: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Expressions that list the values of all cells, one per grid."""
    for grid in grids:
        queries = tuple(range(grid["first"], grid["first"] + grid["queries"]))
        keys, arguments = (
            tuple(range(grid["keys"])),
            "".join(f", {argument!r}" for argument in grid["given"]),
        )
        call = f"{name}(workshop_q, workshop_k{arguments})"
        yield f"[{call} for workshop_q in {queries!r} for workshop_k in {keys!r}]"


def _cells(grid: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
    """The arguments of each cell of a grid, row by row."""
    for q in range(grid["first"], grid["first"] + grid["queries"]):
        for k in range(grid["keys"]):
            yield (q, k, *grid["given"])


def plain(value: Any, depth: int = 0) -> Any:
    """A value as JSON: anything but a number, bool, None or short list is replaced by its type."""
    kind = type(value)
    if value is None or kind in (bool, float):
        return value
    if kind is int and abs(value) < 10**18:
        return value
    if kind in (list, tuple) and depth < MOST_DEPTH and len(value) < MOST_LENGTH:
        return [plain(item, depth + 1) for item in value]
    name = kind.__name__
    if isinstance(value, monty.MontyClassProxy):
        name = value.name
    elif isinstance(value, monty.MontyStdTypeProxy):
        name = value.kind
    elif isinstance(value, str) and (
        hit := re.match(r"<(function|class|module) '|(range)\(", value)
    ):
        name = hit[1] or hit[2]  # Monty returns these as text
    return {"type": name[:MOST_NAME]}


class _Run:
    """A session with a program in it. `values` holds the results of its calls up to the first
    fault."""

    def __init__(self, pool: monty.Monty, code: str, suspect: str = "") -> None:
        self._pool, self._code, self._suspect = pool, code, suspect
        self.printed = ""
        self.fault: dict[str, Any] | None = None
        self.values: list[Any] = []

    def call(self, calls: Iterable[str], until: float = float("inf")) -> "_Run":
        """Run the program, then each of these expressions, until one fails or time is up."""
        called = False
        try:
            with self._pool.checkout(limits=LIMITS, os_policy=POLICY) as session:
                # A final expression would be unpacked as the result, so the code ends with None.
                session.feed_run(f"{self._code}\n\nNone\n", print_callback=self._print)
                if self._suspect:
                    session.feed_run(f"{self._suspect}\n\nNone\n")
                called = True
                for expression in calls:
                    if time.monotonic() > until:
                        break
                    self.values.append(session.feed_run(expression, print_callback=self._print))
        except monty.MontyError as error:
            self.fault = fault(error, self._code, called)
        return self

    def _print(self, stream: str, text: str) -> None:
        self.printed += text[: MOST_PRINTED - len(self.printed)]


def fault(error: monty.MontyError, code: str, called: bool = False) -> dict[str, Any]:
    """The error: its `kind`, its name and message, and its position in the program.

    `called`: it occurred in a call of the function, not while the program was loaded.
    """
    if isinstance(error, monty.MontyCrashedError):
        return {"kind": "time" if error.timed_out else "memory"}
    if not isinstance(error, monty.MontySyntaxError | monty.MontyRuntimeError):
        return {"kind": "large"}
    name, _, message = error.display("type-msg")[:MOST_SAID].partition(": ")
    own = [frame for frame in error.traceback() if frame.filename == PROGRAM]
    if called:  # a frame without a name: the call does not fit the signature
        own = [frame for frame in own if frame.function_name is not None]
    kind = {"TimeoutError": "time", "MemoryError": "memory", "RecursionError": "depth"}.get(name)
    if isinstance(error, monty.MontySyntaxError):
        kind = "syntax"
    report: dict[str, Any] = {"kind": kind or "raised", "error": name, "message": message}
    if "suspension limit" in message:
        report["kind"] = "outside"
    if own:
        place = own[-1]
        report |= {"line": place.line, "column": place.column}
        lines = code.split("\n")
        if report["kind"] == "outside" and place.line <= len(lines):
            report["message"] = lines[place.line - 1][place.column - 1 : place.end_column - 1][:60]
    elif called and report["kind"] in ("raised", "outside"):
        report["kind"] = "missing" if report["kind"] == "outside" else "call"
    return report


def main() -> None:
    """Answer one line of JSON after another, until the app closes the input."""
    bounded(ROOM)
    with monty.Monty(
        min_processes=1,
        max_processes=1,
        max_checkouts_per_worker=100,
        request_timeout=LIMITS["max_feed_duration_secs"] + GRACE,  # type: ignore[operator]
        feed_duration_limit_grace=GRACE,
    ) as pool:
        for line in sys.stdin:
            try:
                reply = answered(pool, json.loads(line))
            except (MemoryError, RecursionError):
                reply = {"values": [], "fault": {"kind": "large"}, "printed": ""}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
