"""Limits of a process that reads untrusted input: memory, time, files and priority."""

import json
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from explorer.problems import InputProblem

if sys.platform != "win32":
    import resource


def bounded(room: int) -> None:
    """Limit memory to `room` bytes more than now (on Linux only), and forbid writing files."""
    if sys.platform == "win32":
        return
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            taken = next(int(line.split()[1]) for line in status if line.startswith("VmData"))
    except (OSError, StopIteration):
        return  # not Linux: only the app's deadline applies
    limit = taken * 1024 + room
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def allow(seconds: int) -> None:
    """Limit the CPU time of this process to `seconds` from now, plus up to one; then it is ended.

    Counts its own CPU time, whatever the load of the machine.
    """
    if sys.platform != "win32":
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + seconds, most))


def answer_one(answered: Callable[..., dict[str, Any]], room: int, seconds: int) -> None:
    """Answer one line of JSON, whose values are the arguments of `answered`, within the limits of
    `bounded` and `allow`; an InputProblem is answered by its `key` and values."""
    asked = json.loads(sys.stdin.readline())
    bounded(room)
    allow(seconds)
    try:
        answer = answered(**asked)
    except InputProblem as problem:
        answer = {"key": problem.key, **problem.values}
    print(json.dumps(answer), flush=True)
