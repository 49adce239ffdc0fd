"""A stranger's program reads no file, opens no socket, starts no process, and ends in time."""

import os
import socket
import sys
import time
from collections.abc import Container, Iterator
from pathlib import Path

import pytest
from hostile import FAMILIES, programs

from explorer import sandbox
from explorer.sandbox import Answer, Grid

SECRET = "the-canary-sings-at-midnight"
LONGEST = 1.0
"""Seconds that a program may live. A busy machine is given more before a test fails."""
SLACK = 1.0
MOST = 50_000_000
"""Bytes that a program may take besides what an idle worker has."""


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[str]:
    """A file that no program may read, change or move."""
    file = tmp_path / "secret.py"
    file.write_text(SECRET)
    yield str(file)
    assert file.read_text() == SECRET
    assert os.listdir(tmp_path) == ["secret.py"]


OWN = {"monty", Path(sys.executable).name, "python"}
"""The names of the keepers and of their workers."""


def ours(apart: Container[int] = ()) -> dict[int, str]:
    """The processes below this one, by their ids, without those below `apart`."""
    found, waiting = {}, [os.getpid()]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            for child in map(int, task.read_text().split()):
                if child in apart:
                    continue
                found[child] = Path(f"/proc/{child}/comm").read_text().strip()
                waiting.append(child)
    return found


def peak(process: int) -> int:
    """The most memory that a process has had, in bytes; 0 of one that has just ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 1024 * next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def withstood(code: str) -> Answer:
    """Run a program; what holds for every one, whatever it wants."""
    begun = time.monotonic()
    answer = sandbox.run(code, "f", grids=[Grid(3, 3)])
    assert time.monotonic() - begun < LONGEST + SLACK, code
    assert SECRET not in str(answer), code
    assert len(str(answer)) < 500_000, code
    assert len(answer.printed) <= 2_000, code
    assert answer.fault is not None or len(answer.values) == 9, (code, answer)
    return answer


def check(n: int, secret: str, seed: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0)
        withstood("def f(q, k): return 1")  # starts what answers
        linux = sys.platform == "linux"
        # Other tests of this process may have a browser open.
        apart = {process for process, name in ours().items() if name not in OWN} if linux else set()
        idle = {process: peak(process) for process in ours(apart)} if linux else {}
        port = str(listening.getsockname()[1])
        for family, code in programs(n, secret, seed):
            withstood(code.replace("127.0.0.1", f"127.0.0.1:{port}"))
            if idle:
                there = ours(apart)
                assert set(there.values()) <= OWN, code
                assert len(there) <= len(idle) + 1, (family, code, there)
                for process in there:
                    before = idle.get(process, min(idle.values()))
                    assert peak(process) - before < MOST, (family, code)
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert withstood("def f(q, k): return 1").values == (1,) * 9


def test_a_few_of_every_family_are_withstood(canary: str) -> None:
    check(3 * len(FAMILIES), canary, seed=1)


@pytest.mark.sweep
def test_a_thousand_are_withstood(canary: str) -> None:
    check(1_000, canary, seed=0)
