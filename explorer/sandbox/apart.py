"""A process of our own that reads what a stranger wrote: it answers a line with a line.

It runs a module of this folder under the limits of `bounds`, and ends with this process, since its
input closes then. Whoever asks gets plain data in time, or nothing.
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
"""A block in which the caller waits, and others compute."""

ROOT = Path(__file__).parents[2]
KEPT = ("PATH", "MONTY_BIN")
"""What it sees of the environment."""
START = "import runpy, sys; sys.path.append({!r}); runpy.run_module({!r}, run_name='__main__')"
MOST_REPLY = 64_000_000
"""Bytes of an answer."""
SOON = 0.05
"""Seconds after which who waits for an answer lets others compute."""


class Apart:
    """One process, started when it is first asked, and again after it was ended.

    It is asked by one thread at a time: inside `lock`, or by whoever alone has it.
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
        """Its answer to one line; None if it gave none in `patience` seconds, or broke.

        Then it is ended.
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
            start_new_session=True,  # ended as a group, with all below it
        )

    def _line(self, until: float, away: Away) -> bytes | None:
        """What it writes up to the end of a line; None if it ends, writes too much, or is late."""
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
        """End it and all below it."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):  # it was over already
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # a line that it never read
                pipe.close()
        self._process = None
