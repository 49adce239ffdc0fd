"""A helper process that reads untrusted input: it answers each line with one line.

It runs a module of this folder under the limits of `bounds`, and ends with this process, since its
input then closes. The caller gets plain data in time, or nothing.
"""

import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

Away = Callable[[], AbstractContextManager[None]]
"""A context in which the caller waits and other sessions compute."""

ROOT = Path(__file__).parents[2]
KEPT = ("PATH", "MONTY_BIN")
"""The environment variables that it gets."""
START = "import runpy, sys; sys.path.append({!r}); runpy.run_module({!r}, run_name='__main__')"
MOST_REPLY = 64_000_000
"""Maximum bytes of an answer."""
SOON = 0.05
"""Seconds of waiting for an answer after which other sessions may compute."""


class Apart:
    """One process, started on its first use, and again after it was ended.

    Only one thread may use it at a time: inside `lock`, or as its only owner.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        self.lock = threading.Lock()
        self._code = START.format(str(ROOT), f"explorer.sandbox.{module}")
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_there(self) -> bool:
        """Whether it is running."""
        return self._process is not None and self._process.poll() is None

    def ask(self, line: bytes, patience: float, away: Away = nullcontext) -> bytes | None:
        """Its answer to one line; None if there is none in `patience` seconds, or it is broken.

        It is then ended.
        """
        until = time.monotonic() + patience
        if not self.is_there:
            self.end()
            self._process = self._started()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()
            found = self._line(until, away)
        except OSError:
            found = None
        if found is None:
            self.end()
        return found

    def _started(self) -> subprocess.Popen[bytes]:
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        return subprocess.Popen(
            [sys.executable, "-P", "-E", "-c", self._code, *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=kept | {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
            start_new_session=True,  # so that it is ended as a group, with its children
        )

    def _line(self, until: float, away: Away) -> bytes | None:
        """Its output up to a line end; None if it ends, writes too much, or is late."""
        assert self._process is not None
        assert self._process.stdout is not None
        source, parts, size = self._process.stdout.fileno(), list[bytes](), 0
        with selectors.DefaultSelector() as ready:
            ready.register(source, selectors.EVENT_READ)
            if not ready.select(SOON):
                with away():
                    ready.select(max(0.0, until - time.monotonic()))
            while ready.select(max(0.0, until - time.monotonic())):
                part = os.read(source, 1 << 16)
                parts.append(part)
                size += len(part)
                if part.endswith(b"\n"):
                    return b"".join(parts)
                if not part or size > MOST_REPLY:
                    return None
        return None

    def end(self) -> None:
        """End it and its children."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):  # it had already ended
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # an unread line
                pipe.close()
        self._process = None
