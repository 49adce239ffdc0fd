"""Several processes at one address: `headlight app --workers 2`.

Python runs one thread at a time, so one process uses one core. Each worker is a complete app on
a port of its own, on this machine only; a relay in front of them passes a user's
requests to one worker, named by a cookie. If that worker is gone, the next one takes over: a user's
choices are stored in the page link, which the page sends when it reconnects.
"""

import asyncio
import contextlib
import os
import random
import re
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence

from explorer import admission
from models.training.home import home

COOKIE = "headlight_worker"
MOST_WORKERS = 64
HEAD = 64 * 1024
"""Maximum size of a request head in bytes, cookies and address included."""
PATIENCE = 20.0
"""Seconds for a connection to send its request and find a worker."""
BRIEFLY = 0.2
"""Seconds for a connection beyond the descriptors to send its request, before it is refused."""
EXPECTED = 5.0
"""Seconds within which a browser opens its websocket after its first request for the page."""
LINGERING = 2.0
"""Seconds for which the rest of an already answered request is read."""
USAGE = 2
"""The exit status with which Streamlit rejects an option."""
_CHUNK = 64 * 1024
_AGAIN = 0.2  # seconds between two checks whether a worker answers
_WORKER = re.compile(rf"(?im)^cookie:.*\b{COOKIE}=(\d+)")


class Worker:
    """One process of the app, restarted whenever it ends."""

    def __init__(self, number: int, options: Sequence[str], places: int = sys.maxsize) -> None:
        self.number, self.places = number, places
        self._options = options
        self.port = 0
        self.n_visitors = 0  # open websockets
        self._n_expected = 0  # browsers that have requested the page and will open a websocket
        self.process: asyncio.subprocess.Process | None = None

    async def keep(self) -> None:
        """Run it, restarting as needed, until this task is cancelled; then end it.

        Raises ValueError if Streamlit rejects the options.
        """
        try:
            while True:
                self.port = _free_port()
                self.process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "explorer.workers", str(self.port), *self._options,
                    stdin=asyncio.subprocess.PIPE,  # closed whenever this process ends
                    stdout=asyncio.subprocess.DEVNULL,  # would print an address not meant for users
                )  # fmt: skip
                if await self.process.wait() == USAGE:
                    raise ValueError(f"Streamlit does not take {' '.join(self._options)}")
                print(f"headlight: worker {self.number} ended, starting it again", flush=True)
                await asyncio.sleep(_AGAIN)
        finally:
            if self.process is not None and self.process.returncode is None:
                self.process.terminate()
                await self.process.wait()

    def rank(self, known: int | None) -> tuple[bool, bool, int, float]:
        """Sort key, ascending: free places, then the cookie's worker, then the fewest users."""
        n_here = self.n_visitors + self._n_expected
        return self.n_visitors >= self.places, self.number != known, n_here, random.random()

    def come(self, head: bytes) -> None:
        """Count a user: a websocket until it ends, a first request as a websocket to come."""
        if _is_upgrade(head):
            self.n_visitors += 1
        elif _known(head) is None:
            self._n_expected += 1
            asyncio.get_running_loop().call_later(EXPECTED, self._forget)

    def _forget(self) -> None:
        self._n_expected -= 1

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to it. Raises OSError while it does not listen."""
        return await asyncio.open_connection("127.0.0.1", self.port)


class Relay:
    """Passes every request to the worker of its user."""

    def __init__(self, workers: Sequence[Worker], most: int = sys.maxsize) -> None:
        self._workers, self._most, self._n_open = workers, most, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle one request and its response, or one websocket for its lifetime."""
        if self._n_open >= self._most:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(BRIEFLY):  # unread data would reset the connection
                    await reader.read(HEAD)
            writer.write(admission.BUSY)
            await _close(writer)
            return
        self._n_open += 1
        try:
            await self._serve(reader, writer)
        finally:
            self._n_open -= 1

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                worker, (from_worker, to_worker) = await self._worker_for(head)
        except TimeoutError:
            await _refuse(reader, writer, "503 Service Unavailable")
            return
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            await _close(writer)
            return
        to_worker.write(_one_request(head))
        ways = (
            asyncio.create_task(_request(reader, to_worker)),
            asyncio.create_task(_answer(from_worker, writer, worker, head)),
        )
        try:  # either end may end it
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            worker.n_visitors -= _is_upgrade(head)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            await _close(to_worker)
            if _has_body(head):
                await _hear_out(reader, writer)
            await _close(writer)

    async def _worker_for(
        self, head: bytes
    ) -> tuple[Worker, tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """The user's worker and a connection to it; if it is gone, a worker that listens.

        A new user goes to the worker with the fewest users, chosen at random among equals. A user
        is counted before the connection is made, so that simultaneous arrivals are spread evenly.
        """
        known = _known(head)
        while True:
            for worker in sorted(self._workers, key=lambda each: each.rank(known)):
                worker.come(head)
                try:
                    return worker, await worker.connect()
                except BaseException as problem:
                    worker.n_visitors -= _is_upgrade(head)
                    if not isinstance(problem, OSError):
                        raise
            await asyncio.sleep(_AGAIN)


def _known(head: bytes) -> int | None:
    found = _WORKER.search(head.decode("latin-1"))
    return int(found[1]) if found and len(found[1]) < 4 else None


def _is_upgrade(head: bytes) -> bool:
    return re.search(rb"(?im)^upgrade: *websocket", head) is not None


def _has_body(head: bytes) -> bool:
    return re.search(rb"(?im)^(content-length: *[1-9]|transfer-encoding:)", head) is not None


def _one_request(head: bytes) -> bytes:
    """The request head, changed to allow only one request on this connection.

    The next request on it may be another user's, if there is a further proxy in front.
    """
    if _is_upgrade(head):
        return head
    lines = [line for line in head.split(b"\r\n") if not re.match(rb"(?i)connection *:", line)]
    return b"\r\n".join([lines[0], b"Connection: close", *lines[1:]])


async def _request(reader: asyncio.StreamReader, to_worker: asyncio.StreamWriter) -> None:
    """Pass a request on; drop what a worker no longer reads because it has answered."""
    try:
        await _pass(reader, to_worker)
    except ConnectionError:
        while await reader.read(_CHUNK):
            pass


async def _answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, worker: Worker, head: bytes
) -> None:
    """Pass a response on, with a cookie for its worker if the request had none."""
    answer = await reader.readuntil(b"\r\n\r\n")
    if _known(head) != worker.number:
        cookie = f"Set-Cookie: {COOKIE}={worker.number}; Path=/; HttpOnly; SameSite=Lax\r\n\r\n"
        answer = answer[:-2] + cookie.encode()
    writer.write(answer)
    await _pass(reader, writer)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy everything from one end to the other, at the speed of the receiver."""
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, status: str) -> None:
    writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
    await _hear_out(reader, writer)
    await _close(writer)


async def _hear_out(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read what is still sent after the response: closing earlier would reset the connection and
    lose the response (RFC 9112, section 9.6)."""
    with contextlib.suppress(OSError, TimeoutError):
        writer.write_eof()
        async with asyncio.timeout(LINGERING):
            while await reader.read(_CHUNK):
                pass


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close it once everything is sent, or the other end is gone."""
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port


async def serve(n_workers: int, address: str, port: int, options: Sequence[str] = ()) -> None:
    """Serve the app at an address with several processes, until this process is terminated.

    `options` are passed to `streamlit run` in each of them. Raises OSError if the address is
    taken, ValueError if Streamlit rejects the options.
    """
    # One secret for all: an upload is signed by the worker that rendered the page, and may reach
    # another one if that has ended.
    os.environ.setdefault("STREAMLIT_SERVER_COOKIE_SECRET", secrets.token_hex(32))
    os.environ[admission.PROCESSES] = str(n_workers)
    places = admission.capacity()
    print(f"headlight: {places}", flush=True)
    admission.bound_the_log(asyncio.get_running_loop())
    most = max(1, (admission.raised_descriptors() - admission.RESERVED) // 2)  # two of each
    workers = [Worker(number, options, places.sessions) for number in range(n_workers)]
    relay = Relay(workers, most)
    server = await asyncio.start_server(relay.serve, address, port, limit=HEAD)
    over = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, over.set)
    tasks = [asyncio.create_task(worker.keep()) for worker in workers]
    asked = asyncio.create_task(over.wait())
    async with server:
        await asyncio.wait({asked, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in (asked, *tasks):
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended


def _with_parent() -> None:
    """End when the process that started this one does, even if it was killed."""

    def wait() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


def _command(port: str, options: Sequence[str]) -> Iterator[str]:
    yield from ("run", str(home() / "app.py"), *options)
    yield from ("--server.address", "127.0.0.1", "--server.port", port, "--server.headless", "true")


if __name__ == "__main__":
    from streamlit.web import cli

    _with_parent()
    cli.main(list(_command(sys.argv[1], sys.argv[2:])), prog_name="streamlit")
