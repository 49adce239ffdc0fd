"""The process beside the app in which a stranger's program is handed to Monty and its answer read.

Started as a script of its own; it imports nothing of this project, and writes and reads lines of
JSON. Monty is a Python interpreter in Rust without files, network or processes; each program runs
in a worker process of it, within LIMITS. This process stands between that worker and the app:
whatever a program gives back is unpacked here, where memory is bounded, and never in the app. (A
list that holds one list ten times, eight times over, is a few hundred bytes there and 17 GB here.)
"""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import pydantic_monty as monty

LIMITS: monty.ResourceLimits = {
    "max_feed_duration_secs": 0.3,
    "max_memory": 16_000_000,
    "max_recursion_depth": 200,
    "max_suspensions": 0,  # every way out of the sandbox is one: names of the host, files, clocks
    "max_total_sleep_secs": 0.0,
}
GRACE = 0.2
"""Seconds after the limit of time at which a worker that did not stop by itself is killed."""
ROOM = 48_000_000
"""Bytes that this process may take besides those that it begins with, and each worker as well."""
MOST_PRINTED, MOST_SAID, MOST_ANSWER = 2_000, 300, 400_000
"""Characters of what a program prints, of an error's message, and of its answer as JSON."""

_CALLS = """
import json as workshop_json
def workshop_plain(value, depth):
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int):
        return value if abs(value) < 10**18 else {"type": "int"}
    if isinstance(value, (list, tuple)) and depth < 3 and len(value) < 1000:
        return [workshop_plain(each, depth + 1) for each in value]
    return {"type": type(value).__name__}
workshop_values = []
for workshop_grid in workshop_grids:
    workshop_given, workshop_first = workshop_grid["given"], workshop_grid["first"]
    for workshop_q in range(workshop_first, workshop_first + workshop_grid["queries"]):
        for workshop_k in range(workshop_grid["keys"]):
            workshop_values.append(workshop_plain(NAME(workshop_q, workshop_k, *workshop_given), 0))
for workshop_case in workshop_cases:
    workshop_values.append(workshop_plain(NAME(*workshop_case), 0))
workshop_json.dumps(workshop_values)
"""
"""Fed after the program: every call that is asked for, and what came back as JSON."""

_CHECKS = """
def workshop_verdict(suspect):
    try:
        return NAME(suspect)
    except AssertionError:
        return False
workshop_cases = [[each] for each in workshop_suspects]
"""
"""Where the program is a check: it is handed functions, and a failed assertion is a verdict."""


def bounded() -> None:
    """Give up what no program needs: memory beyond ROOM, writing files, being first in line."""
    if sys.platform == "win32":
        return
    import resource

    os.nice(10)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            taken = next(int(line.split()[1]) for line in status if line.startswith("VmData"))
    except (OSError, StopIteration):
        return  # no Linux: the limits of the worker and the app's deadline remain
    limit = taken * 1024 + ROOM
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def answered(pool: monty.Monty, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Run `code`, then call its function `name` for every cell of `grids` and with all `cases`.

    With `suspects`, programs that each define `suspect`, the function is called with those
    functions instead. The answer holds `values` (JSON as text) or a `fault`, and what it `printed`.
    """
    printed = _Printed()
    found: dict[str, Any] = {"values": None, "fault": None}
    # Time stands still, nobody sleeps, and chance repeats itself: an answer depends on the code.
    policy: monty.OSPolicy = {"sleep": "zero", "random_start": {"seed": 0}}
    try:
        with pool.checkout(limits=LIMITS, os_policy=policy) as session:
            try:
                # What a program ends with would be its result, and unpacked: so it ends with None.
                session.feed_run(asked["code"] + "\n\nNone\n", print_callback=printed)
            except monty.MontyError as error:
                found["fault"] = fault(error, asked["code"])
            else:
                found |= _called(session, asked, printed)
    except monty.MontyError as error:  # its worker died
        found["fault"] = fault(error, asked["code"])
    return found | {"printed": printed.text}


class _Printed:
    """The beginning of what a program prints."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, stream: str, text: str) -> None:
        self.text += text[: MOST_PRINTED - len(self.text)]


def _called(
    session: monty.MontySession, asked: Mapping[str, Any], printed: "_Printed"
) -> dict[str, Any]:
    calls, name = _CALLS, asked["name"]
    inputs = {f"workshop_{each}": asked[each] for each in ("grids", "cases")}
    try:
        if asked["suspects"]:
            session.feed_run("workshop_suspects = []\nNone")
            for suspect in asked["suspects"]:
                session.feed_run(f"{suspect}\nworkshop_suspects.append(suspect)\nNone")
            session.feed_run(_CHECKS.replace("NAME", name) + "\nNone", inputs=inputs)
            name, inputs = "workshop_verdict", {}
        values = session.feed_run(
            calls.replace("NAME", name), inputs=inputs, print_callback=printed
        )
    except monty.MontyError as error:
        said = fault(error, asked["code"], called=True)
        if said["kind"] not in ("raised", "call"):
            return {"fault": said}
        # The calls before the one that failed have an answer.
        values = session.feed_run("workshop_json.dumps(workshop_values)")
        done = session.feed_run("len(workshop_values)")
        said["case"] = done if type(done) is int else None
        return {"fault": said, "values": values if isinstance(values, str) else None}
    if not isinstance(values, str) or len(values) > MOST_ANSWER:
        return {"fault": {"kind": "large"}}
    return {"values": values}


def fault(error: monty.MontyError, code: str, called: bool = False) -> dict[str, Any]:
    """What went wrong: its `kind`, the error's name and message, and the place in the program.

    `called`: not while the program was read, but in a call of its function.
    """
    if isinstance(error, monty.MontyCrashedError):
        return {"kind": "time" if error.timed_out else "memory"}
    if not isinstance(error, monty.MontySyntaxError | monty.MontyRuntimeError):
        return {"kind": "large"}
    name, _, message = error.display("type-msg")[:MOST_SAID].partition(": ")
    frames = error.traceback()
    own = [each for each in frames if not (each.function_name or "").startswith("workshop_")]
    if called:  # what stands at the top is the caller's line, not the program's
        own = [each for each in own if each.function_name not in (None, "<module>")]
    kind = {"TimeoutError": "time", "MemoryError": "memory", "RecursionError": "depth"}.get(name)
    if isinstance(error, monty.MontySyntaxError):
        kind = "syntax"
    found: dict[str, Any] = {"kind": kind or "raised", "error": name, "message": message}
    if "suspension limit" in message:
        found["kind"] = "outside"
    if own:
        place = own[-1]
        found |= {"line": place.line, "column": place.column}
        lines = code.split("\n")
        if found["kind"] == "outside" and place.line <= len(lines):
            found["message"] = lines[place.line - 1][place.column - 1 : place.end_column - 1][:60]
    elif called and found["kind"] in ("raised", "outside"):
        found["kind"] = "missing" if found["kind"] == "outside" else "call"
    return found


def main() -> None:
    """Answer one line of JSON after another, until the app closes the line."""
    bounded()
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
            except MemoryError:
                reply = {"values": None, "fault": {"kind": "large"}, "printed": ""}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
