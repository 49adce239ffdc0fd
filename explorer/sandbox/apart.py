"""A helper process that reads untrusted input: it answers each line with one line.

It runs one module under the limits of `bounds`, and ends with this process, since its input then
closes. The caller gets plain data in time, or nothing. At most MOST_AT_ONCE files are read at once.
"""

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

Away = Callable[[], AbstractContextManager[None]]
"""A context in which the caller waits and other sessions compute."""

ROOT = Path(__file__).parents[2]
KEPT = ("PATH", "MONTY_BIN")
"""The environment variables that it gets."""
START = "import runpy, sys; sys.path.append({!r}); runpy.run_module({!r}, run_name='__main__')"
MOST_REPLY = 64_000_000
"""Maximum bytes of an answer."""
MOST_AT_ONCE = 3
"""Maximum number of processes that start and read a file at the same time; others wait."""
PLACES = threading.BoundedSemaphore(MOST_AT_ONCE)
"""Always waited for inside `away`, and never held while waiting for the turn."""


class Apart:
    """One process, started on its first use, and again after it was ended.

    Only one thread may use it at a time. `places` limits the processes that are started at the
    same time.
    """

    def __init__(self, module: str, places: AbstractContextManager[Any] | None = None) -> None:
        self._code = START.format(str(ROOT), f"explorer.{module}")
        self._places = nullcontext() if places is None else places
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_there(self) -> bool:
        """Whether it is running."""
        return self._process is not None and self._process.poll() is None

    def ask(self, line: bytes, patience: float, away: Away = nullcontext) -> bytes | None:
        """Its answer to one line; None if there is none in `patience` seconds, or it is broken.

        It is then ended. Other sessions compute inside `away` while it starts.
        """
        unsent, reply, answer = bytearray(line + b"\n"), bytearray(), None
        try:
            if self.is_there:
                self._exchange(unsent, reply, time.monotonic() + patience)
            else:
                self.end()
                with away(), self._places:
                    self._process = self._started()
                    self._exchange(unsent, reply, time.monotonic() + patience)
            if reply.endswith(b"\n"):
                answer = bytes(reply)
        finally:
            if answer is None:
                self.end()
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        process = subprocess.Popen(
            [sys.executable, "-P", "-E", "-c", self._code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=kept | {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
            start_new_session=True,  # so that it is ended as a group, with its children
        )
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        return process

    def _exchange(self, unsent: bytearray, reply: bytearray, until: float) -> None:
        """Send `unsent` and append to `reply`, up to its line end, or until the time is over, the
        process ends or it writes too much."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        source, sink = self._process.stdout.fileno(), self._process.stdin.fileno()
        with selectors.DefaultSelector() as ready:
            ready.register(source, selectors.EVENT_READ)
            if unsent:
                ready.register(sink, selectors.EVENT_WRITE)
            while events := ready.select(max(0.0, until - time.monotonic())):
                for key, _ in events:
                    if key.fd == sink:
                        with suppress(BlockingIOError):
                            del unsent[: _written(sink, unsent)]
                        if not unsent:
                            ready.unregister(sink)
                        continue
                    part = os.read(source, 1 << 16)
                    reply += part
                    if not part or part.endswith(b"\n") or len(reply) > MOST_REPLY:
                        return

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


def _written(sink: int, unsent: bytearray) -> int:
    """The number of bytes written; all of them to a process that no longer reads."""
    try:
        return os.write(sink, unsent[: 1 << 16])
    except BrokenPipeError:
        return len(unsent)


def ask_once(
    module: str, asked: dict[str, Any], patience: float, away: Away = nullcontext
) -> dict[str, Any] | None:
    """The answer of a new process, as JSON; None if it takes more than its time or memory."""
    process = Apart(module, PLACES)
    try:
        reply = process.ask(json.dumps(asked).encode(), patience, away)
    finally:
        process.end()
    answer: dict[str, Any] | None = None if reply is None else json.loads(reply)
    return answer


# Temporary files.


def prefix() -> str:
    """How the name of a temporary file or folder of this process begins."""
    return f"headlight-{os.getpid()}-"


def sweep() -> None:
    """Delete the temporary files of dead processes: a user's picture, model or training."""
    if os.name != "posix":  # signal 0 below ends a process on Windows
        return
    for path in Path(tempfile.gettempdir()).glob("headlight-*-*"):
        owner = path.name.split("-")[1]
        if owner.isdecimal() and not _is_alive(int(owner)):
            with suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # owned by another user
        return True
    return True
