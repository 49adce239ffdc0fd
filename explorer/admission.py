"""Admission: how many sessions a server accepts, and how it handles further and silent ones.

A process accepts as many sessions as its core, its memory and its file descriptors allow. Further
users get a page that says so, and when a place is likely to be free.
"""

import asyncio
import logging
import math
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PROCESSES = "HEADLIGHT_PROCESSES"
"""The environment variable in which workers learn how many they are."""
VARIABLE = "HEADLIGHT_SESSIONS"
"""The environment variable that overrides the number of sessions per process."""
PER_CORE = 60
"""Sessions per core: if all open at once, the last one waits 5 to 6 s for its page."""
PER_SESSION = 12_000_000
"""Bytes per open session: its last Trace and its widgets."""
BASE = 1_000_000_000
"""Bytes of a process without sessions, including models that are opened later."""
DESCRIPTORS = 5
"""File descriptors per session: its websocket, its event loop (3), a share of its requests."""
RESERVED = 32
"""File descriptors for libraries, models being opened, and the sandbox."""
SILENT = 20.0
"""Seconds until a connection must send its request, and between two pieces of it."""
RECENT = 600.0
"""Seconds of past departures from which the waiting time is estimated."""
SOONEST, LATEST = 10, 300
"""Minimum and maximum seconds after which a user is told to come back."""
STREAM = "/_stcore/stream"
LINES = 20
"""Maximum log lines per minute from one place in the code."""
MINUTE = 60.0


@dataclass(frozen=True)
class Capacity:
    """Sessions that one process could accept, by each of the resources that limit them."""

    cores: int
    memory: int
    descriptors: int

    @property
    def sessions(self) -> int:
        """Sessions that it accepts: at least one."""
        return max(1, min(asdict(self).values()))

    def __str__(self) -> str:
        least = min(asdict(self), key=asdict(self).__getitem__)
        return f"takes {self.sessions} sessions per process (limited by {least})"


def capacity() -> Capacity:
    """The capacity of each process of this server; the environment may override it.

    Raises ValueError if the environment names no positive whole number.
    """
    wanted, n_processes = os.environ.get(VARIABLE), int(os.environ.get(PROCESSES, 1))
    if wanted is not None:
        if not (wanted.isascii() and wanted.isdigit() and int(wanted)):
            raise ValueError(f"{VARIABLE} must be a positive whole number, not {wanted!r}")
        return Capacity(int(wanted), int(wanted), int(wanted))
    cores = min(1.0, len(_cores()) / n_processes)
    free = max(0, _memory() - n_processes * BASE)
    descriptors = max(0, raised_descriptors() - RESERVED)
    return Capacity(
        math.ceil(cores * PER_CORE), free // PER_SESSION // n_processes, descriptors // DESCRIPTORS
    )


def _cores() -> range | set[int]:
    """The cores available to this process."""
    if sys.platform == "linux":
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)


def _memory() -> int:
    """Bytes available on the machine, or in the container; 16 GB if unknown."""
    limits = []
    with suppress(OSError):
        own = Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip().lstrip("/")
        for group in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup", own)):
            with suppress(OSError, ValueError):  # "max": no limit
                limits.append(int((group / "memory.max").read_text()))
    with suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        total = next(line for line in lines if line.startswith("MemTotal"))
        limits.append(int(total.split()[1]) * 1024)
    return min(limits, default=16_000_000_000)


def raised_descriptors() -> int:
    """The file descriptor limit of this process, raised to the maximum allowed."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return 8192
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard > 65536:
        hard = max(soft, 65536)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return hard
    return soft


MOST_CONNECTIONS = max(4, (raised_descriptors() - RESERVED) * 2 // DESCRIPTORS)
"""Connections per process: a websocket for each session, and as many others."""
BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: %d\r\n"
    b"Content-Length: 0\r\nConnection: close\r\n\r\n" % SOONEST
)


class Admission:
    """Admits sessions while there are places; tells further users when to come back."""

    def __init__(self, app: ASGIApp, places: int) -> None:
        self._app, self._places = app, places
        self.n_open = 0
        self._left: deque[float] = deque(maxlen=1000)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request or websocket (ASGI)."""
        if scope["type"] == "websocket" and scope["path"].endswith(STREAM):
            await self._session(scope, receive, send)
        elif scope["type"] == "http":
            if self.n_open >= self._places and _asks_for_a_page(scope):
                await self._refusal(scope)(scope, receive, send)
            else:
                await self._app(scope, _in_time(receive, of="http.request"), send)
        else:
            await self._app(scope, receive, send)

    async def _session(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.n_open >= self._places:
            await receive()  # its `websocket.connect`
            if "websocket.http.response" in scope.get("extensions", {}):
                await self._refusal(scope)(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1013})  # "try again later"
            return
        self.n_open += 1
        try:
            await self._app(scope, _in_time(receive, of="websocket.receive"), send)
        finally:
            self.n_open -= 1
            self._left.append(time.monotonic())

    @property
    def wait(self) -> int:
        """Seconds until a place is likely to be free: the mean time between recent departures."""
        now = time.monotonic()
        recent = sum(now - left < RECENT for left in self._left)
        return min(LATEST, max(SOONEST, round(RECENT / recent))) if recent else 60

    def _refusal(self, scope: Scope) -> ASGIApp:
        from explorer.front import (
            full_page,
        )  # reads the texts, which the first request may wait for

        seconds = self.wait
        headers = {"retry-after": str(seconds), "cache-control": "no-store"}
        return HTMLResponse(full_page(scope, seconds), 503, headers)


def _asks_for_a_page(scope: Scope) -> bool:
    """Whether the request is for a page of the app, and not for one of its files."""
    accepted = dict(scope["headers"]).get(b"accept", b"")
    return scope["method"] == "GET" and b"text/html" in accepted


def _in_time(receive: Receive, of: str) -> Receive:
    """`receive` with a time limit of SILENT for a request's body or a first message.

    A late message counts as a disconnect.
    """
    kind = of.partition(".")[0]
    is_due = True

    async def received() -> Message:
        nonlocal is_due
        if not is_due:
            return await receive()
        try:
            message = await asyncio.wait_for(receive(), SILENT)
        except TimeoutError:
            return {"type": f"{kind}.disconnect", "code": 1001}
        if message["type"] == of:
            is_due = kind == "http" and message.get("more_body", False)
        return message

    return received


def watch(protocol: Any, loop: asyncio.AbstractEventLoop) -> None:
    """Limit uvicorn's connections: refuse one beyond the descriptors, drop a silent one.

    Call it when a connection is made.
    """
    if len(protocol.connections) > MOST_CONNECTIONS:
        protocol.transport.write(BUSY)
        protocol.transport.close()
    else:
        drop_silent(protocol, loop)


def drop_silent(protocol: Any, loop: asyncio.AbstractEventLoop, last: Any = None) -> None:
    """End a uvicorn connection that has not sent a complete request head within SILENT.

    Checks again by itself until the connection ends or becomes a websocket.
    """

    def look() -> None:
        transport, cycle = protocol.transport, protocol.cycle
        if transport is None or transport.is_closing() or transport.get_protocol() is not protocol:
            return
        if cycle is None or (cycle is last and cycle.response_complete):
            transport.abort()
        else:
            drop_silent(protocol, loop, cycle)

    loop.call_later(SILENT, look)


class Sparing(logging.Filter):
    """Limits each place in the code to LINES log lines per minute and reports dropped ones."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock, self._since = clock, -math.inf
        self._seen: Counter[tuple[str, int]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this record is logged."""
        place = record.pathname, record.lineno
        if self._clock() - self._since > MINUTE:
            left_out = self._seen[place] - LINES
            self._seen.clear()
            self._since = self._clock()
            if left_out > 0:
                record.msg = f"{record.msg} ({left_out} more like this in the last minute)"
        self._seen[place] += 1
        return self._seen[place] <= LINES


def bound_the_log(loop: asyncio.AbstractEventLoop) -> None:
    """Limit the output of every log handler, and of errors of the event loop.

    When out of descriptors, asyncio logs each of 2,048 failed attempts per second with a traceback.
    """
    sparing = Sparing()
    loggers = [logging.getLogger(), *map(logging.getLogger, logging.root.manager.loggerDict)]
    handlers = {handler for logger in loggers for handler in logger.handlers}
    if logging.lastResort is not None:
        handlers.add(logging.lastResort)
    for handler in handlers:
        handler.addFilter(sparing)

    def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "accept" in context.get("message", ""):
            logging.getLogger("asyncio").error("%s: %s", context["message"], context["exception"])
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(report)
