"""The entries, and one case of one of them."""

import os
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from inspect import isfunction, signature
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import app_test

from explorer.exhibits.choices import RefusedError
from explorer.problems import InputProblem
from tests.fuzz import files, pages, texts

PATIENCE = 20.0
"""Seconds of its own that one case may take: many times what the slowest needs."""
ENTRIES: dict[str, Callable[[random.Random, Path], None]] = {
    name: entry
    for module in (texts, files, pages)
    for name, entry in vars(module).items()
    if isfunction(entry) and [*signature(entry).parameters] == ["rng", "folder"]
}
"""Every way in: the functions of these modules that take a case's numbers and its folder."""
_own: list[Path] = []
_strayed: list[str] = []


def watch(event: str, arguments: tuple[Any, ...]) -> None:
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


def case(entry: str, number: int) -> None:
    """Run one case. Raises what is no refusal."""
    rng = random.Random(f"{entry} {number}")
    began = time.process_time()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        _strayed.clear()
        _own.append(Path(name).resolve())
        usual, tempfile.tempdir = tempfile.tempdir, name
        try:
            with suppress(InputProblem, RefusedError):
                ENTRIES[entry](rng, Path(name))
        except ValueError as error:
            # For the shell and training files these are the refusals; they must say something.
            if entry not in ("training", "recipe") or not str(error):
                raise
        finally:
            tempfile.tempdir = usual
            _own.clear()
        assert not list(Path(name).glob("headlight-*")), "a temporary folder was left behind"
    assert not _strayed, f"written outside its place: {_strayed}"
    took = time.process_time() - began
    assert took < (3 if entry in ("page", "visit") else 1) * PATIENCE, f"took {took:.1f} s"
