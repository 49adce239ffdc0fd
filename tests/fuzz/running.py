"""The entries, one case of one of them, and a run of as many as there is time for."""

import argparse
import contextlib
import logging
import os
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from inspect import isfunction, signature
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import app_test

from explorer.exhibits.choices import RefusedError
from explorer.problems import InputProblem
from explorer.runs.trace import trace
from tests.fuzz import __doc__ as about, files, pages, texts

PATIENCE = 20.0
"""Seconds of its own that one case may take: many times what the slowest needs."""
GROWTH = 700_000_000
"""Bytes that a run may add to the process: allocators keep some of what they once had."""
ENTRIES: dict[str, Callable[[random.Random, Path], None]] = {
    name: entry
    for module in (texts, files, pages)
    for name, entry in vars(module).items()
    if isfunction(entry) and [*signature(entry).parameters] == ["rng", "folder"]
}
"""Every way in: the functions of these modules that take a case's numbers and its folder."""
_own: list[Path] = []
_strayed: list[str] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Note every file that is opened for writing, or made, outside the folder of the case."""
    if not _own:
        return
    if event == "open":
        path, mode, flags = arguments
        writing = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) if flags else "w" in (mode or "")
    else:
        path, writing = arguments[0], event in ("os.mkdir", "os.rename", "os.remove", "os.symlink")
    # By the handle of an open folder, as rmtree does it: the folder was watched when it was made.
    by_handle = event == "os.remove" and arguments[1:] not in ((), (-1,))
    if writing and not by_handle and isinstance(path, str | bytes):
        place = Path(os.path.abspath(os.fsdecode(path)))
        usual = "__pycache__" in place.parts or place.parts[:2] == ("/", "dev")
        usual = usual or place.is_relative_to(app_test.TMP_DIR.name)  # AppTest's own scripts
        if not usual and not place.is_relative_to(_own[0]):
            _strayed.append(f"{event} {place}")


def case(entry: str, number: int) -> bool:
    """Run one case; whether its input was refused. Raises what is no refusal."""
    rng = random.Random(f"{entry} {number}")
    began = time.process_time()
    refused = False
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        _strayed.clear()
        _own.append(Path(name).resolve())
        usual, tempfile.tempdir = tempfile.tempdir, name
        try:
            ENTRIES[entry](rng, Path(name))
        except (InputProblem, RefusedError):
            refused = True
        except ValueError as error:
            # For the shell and training files these are the refusals; they must say something.
            if entry not in ("training", "recipe") or not str(error):
                raise
            refused = True
        finally:
            tempfile.tempdir = usual
            _own.clear()
        assert not list(Path(name).glob("headlight-*")), "a temporary folder was left behind"
    assert not _strayed, f"written outside its place: {_strayed}"
    took = time.process_time() - began
    assert took < (3 if entry in ("page", "visit") else 1) * PATIENCE, f"took {took:.1f} s"
    return refused


def resident() -> int:
    """Bytes that this process holds; 0 where the system does not say."""
    with contextlib.suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run cases, each entry in turn, until the time is over. Returns 1 where one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=about)
    parser.add_argument("seconds", type=float, nargs="?", default=60)
    parser.add_argument("--entry", choices=tuple(ENTRIES), action="append")
    parser.add_argument("--case", type=int, help="this case alone")
    parser.add_argument("--first", type=int, default=0, help="the number to begin with")
    args = parser.parse_args(argv)
    entries = args.entry or list(ENTRIES)
    trace(texts.model("copy"), "a b")  # once: torch makes its cache's folder
    logging.disable(logging.WARNING)  # a page without a browser is no news
    sys.addaudithook(_watch)
    if args.case is not None:
        case(entries[0], args.case)
        return 0
    end = time.monotonic() + args.seconds
    done: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    failed = 0
    number, began_with = args.first, 0
    while time.monotonic() < end and failed < 10:
        for entry in entries:
            # Cheap entries get more cases: as many as fit into a twentieth of a second.
            until = time.monotonic() + 0.05
            while True:
                try:
                    refused[entry] += case(entry, number + done[entry])
                except Exception:
                    failed += 1
                    print(f"\n--entry {entry} --case {number + done[entry]}", file=sys.stderr)
                    traceback.print_exc()
                done[entry] += 1
                if time.monotonic() > until:
                    break
        began_with = began_with or (resident() if done.total() > 500 else 0)
    for entry in entries:
        print(f"{entry}: {done[entry]} cases, {refused[entry]} refused")
    grown = resident() - began_with if began_with else 0
    print(f"{done.total()} cases, {failed} failed, grown by {grown / 1e6:.0f} MB")
    return int(failed > 0 or grown > GROWTH)
