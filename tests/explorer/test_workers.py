"""The relay in front of several workers: one visitor, one worker; and another when that is gone."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress

import pytest

from explorer import workers
from explorer.cli import main
from explorer.workers import COOKIE, HEAD, Relay, Worker

UPGRADE = "Upgrade: websocket\r\nConnection: Upgrade\r\n"


class Stub(Worker):
    """A worker that answers every request with its number and what it was asked; and echoes."""

    def __init__(self, number: int) -> None:
        super().__init__(number, ())
        self.asked: list[bytes] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head)
        if b"/early" in head:
            writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\nlate")
            while await reader.read(100_000):  # as the app does it, until the relay hangs up
                pass
        elif b"websocket" in head:
            writer.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
            while data := await reader.read(100):
                writer.write(data.upper())
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % self.number)
        writer.close()


class Front:
    """A relay before two workers, of which each can be ended and begun again."""

    def __init__(self) -> None:
        self.workers = [Stub(0), Stub(1)]
        self.servers: list[asyncio.Server] = []
        self.visitors: list[asyncio.StreamWriter] = []
        self.port = 0

    async def begin(self, worker: Stub) -> None:
        server = await asyncio.start_server(worker.answer, "127.0.0.1", 0)
        worker.port = server.sockets[0].getsockname()[1]
        self.servers.append(server)

    async def ask(self, further: str = "", path: str = "/") -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: here\r\n{further}\r\n".encode())
        try:
            return (await reader.read()).decode()
        finally:
            writer.close()

    async def open(self, further: str) -> None:
        """Ask, read the head of the answer, and stay."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.visitors.append(writer)
        writer.write(f"GET / HTTP/1.1\r\nHost: here\r\n{further}\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")


@asynccontextmanager
async def front(n_running: int = 2):  # type: ignore[no-untyped-def]
    found = Front()
    relay = await asyncio.start_server(Relay(found.workers).serve, "127.0.0.1", 0, limit=HEAD)
    found.port = relay.sockets[0].getsockname()[1]
    for worker in found.workers[:n_running]:
        await found.begin(worker)
    try:
        yield found
    finally:
        for server in (*found.visitors, relay, *found.servers):
            server.close()
        serving = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*serving, return_exceptions=True)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await test()

    with ThreadPoolExecutor(1) as thread:  # this one may run a browser's event loop already
        thread.submit(asyncio.run, bounded()).result()


def test_newcomers_go_where_the_fewest_are_and_come_back_to_the_same_worker() -> None:
    async def test() -> None:
        async with front() as at:
            for there in (0, 1):
                at.workers[there].n_visitors = 3
                answer = await at.ask()
                other = 1 - there
                assert answer[-1] == str(other)
                assert f"Set-Cookie: {COOKIE}={other}; Path=/; HttpOnly; SameSite=Lax" in answer
                again = await at.ask(f"Cookie: a=b; {COOKIE}={there}; c=d\r\n")
                assert again[-1] == str(there)
                assert "Set-Cookie" not in again
                at.workers[there].n_visitors = 0

    run(test)


@pytest.mark.parametrize("further", ["", UPGRADE])
def test_many_who_come_at_once_are_spread_evenly(further: str) -> None:
    """All 50 visitors of a class once went to one worker: none of them was counted yet."""

    async def test() -> None:
        async with front() as at:
            at.workers[0].n_visitors = 1  # one visitor is here already
            await asyncio.gather(*(at.open(further) for _ in range(11)))
            assert sorted(len(worker.asked) for worker in at.workers) == [5, 6]

    run(test)


@pytest.mark.parametrize("cookie", ["7", "-1", "x", "99999999999999999999"])
def test_a_made_up_cookie_is_a_newcomers(cookie: str) -> None:
    async def test() -> None:
        async with front() as at:
            assert "Set-Cookie" in await at.ask(f"Cookie: {COOKIE}={cookie}\r\n")

    run(test)


def test_when_a_worker_is_gone_the_next_one_takes_over_and_says_so() -> None:
    async def test() -> None:
        async with front(n_running=1) as at:
            answer = await at.ask(f"Cookie: {COOKIE}=1\r\n")
            assert answer[-1] == "0"
            assert f"{COOKIE}=0" in answer

    run(test)


def test_while_no_worker_listens_a_request_waits() -> None:
    async def test() -> None:
        async with front(n_running=0) as at:
            asked = asyncio.create_task(at.ask())
            await at.begin(at.workers[1])
            assert (await asked)[-1] == "1"

    run(test)


def test_where_none_comes_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 0.3)

    async def test() -> None:
        async with front(n_running=0) as at:
            assert (await at.ask()).startswith("HTTP/1.1 503 ")

    run(test)


def test_one_request_a_connection_but_a_websocket_stays_as_it_is() -> None:
    async def test() -> None:
        async with front() as at:
            await at.ask(f"Connection: keep-alive\r\nCookie: {COOKIE}=0\r\n")
            assert b"Connection: close\r\n" in at.workers[0].asked[0]
            assert b"keep-alive" not in at.workers[0].asked[0]
            reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
            at.workers[0].n_visitors = 1
            writer.write(f"GET /stream HTTP/1.1\r\n{UPGRADE}\r\nfirst".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 101 ")
            assert f"{COOKIE}=1".encode() in head
            assert await reader.readexactly(5) == b"FIRST"
            writer.write(b"second")
            assert await reader.readexactly(6) == b"SECOND"
            assert b"Connection: Upgrade" in at.workers[1].asked[0]
            assert at.workers[1].n_visitors == 1
            writer.close()
        assert at.workers[1].n_visitors == 0

    run(test)


@pytest.mark.parametrize("n_running", [2, 0])
def test_an_early_answer_to_a_large_request_arrives(
    monkeypatch: pytest.MonkeyPatch, n_running: int
) -> None:
    """Its sender is still sending, and looks for an answer only then."""
    monkeypatch.setattr(workers, "PATIENCE", 0.3)
    body = b"a" * 20_000_000
    head = f"PUT /early HTTP/1.1\r\nHost: here\r\nContent-Length: {len(body)}\r\n\r\n"

    def send(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
            line.sendall(head.encode())
            for start in range(0, len(body), 1_000_000):
                line.sendall(body[start : start + 1_000_000])
            return line.recv(1000)

    async def test() -> None:
        async with front(n_running) as at:
            answer = await asyncio.to_thread(send, at.port)
            assert answer.startswith(b"HTTP/1.1 413" if n_running else b"HTTP/1.1 503"), answer

    run(test)


def test_a_head_that_never_ends_is_not_kept() -> None:
    async def test() -> None:
        async with front() as at:
            answer = ""
            with suppress(ConnectionError):
                answer = await at.ask(path="/" + "a" * 2 * HEAD)
            assert answer == ""
            assert not at.workers[0].asked

    run(test)


def test_a_worker_that_ends_is_started_again_and_all_end_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With processes that only wait: what they run is Streamlit's business."""
    wait = ("-c", "import sys; sys.stdin.read()")
    start = asyncio.create_subprocess_exec
    started: asyncio.Queue[asyncio.subprocess.Process] = asyncio.Queue()

    async def waiting(*command: str, **more: int) -> asyncio.subprocess.Process:
        assert command[:3] == (sys.executable, "-m", "explorer.workers")
        await started.put(process := await start(sys.executable, *wait, **more))  # type: ignore[arg-type]
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", waiting)

    async def test() -> None:
        worker = Worker(0, ())
        kept = asyncio.create_task(worker.keep())
        first = await started.get()
        os.kill(first.pid, signal.SIGKILL)
        second = await started.get()
        assert second.returncode is None
        kept.cancel()
        with suppress(asyncio.CancelledError):
            await kept
        assert second.returncode is not None

    run(test)


def test_a_worker_ends_with_the_process_that_started_it() -> None:
    wait = "import threading, explorer.workers as w; w._with_parent(); threading.Event().wait(60)"
    worker = subprocess.Popen([sys.executable, "-c", wait], stdin=subprocess.PIPE)
    assert worker.stdin is not None
    worker.stdin.close()
    assert worker.wait(20) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--workers", "0"], "from 1 to 64"), (["--workers", "many"], "from 1 to 64")],
)
def test_how_many_workers_there_may_be(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["app", *arguments])
    assert said in capsys.readouterr().err


def test_where_the_relay_listens_is_not_streamlits_to_say(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["app", "--workers", "2", "--server.port", "9000"]) == 2
    assert "use --port and --public, not --server.port" in capsys.readouterr().err


def test_a_connection_beyond_the_descriptors_is_refused_at_once() -> None:
    async def test() -> None:
        async with front() as at:
            relay = Relay(at.workers, most=1)
            server = await asyncio.start_server(relay.serve, "127.0.0.1", 0, limit=HEAD)
            at.servers.append(server)
            at.port = server.sockets[0].getsockname()[1]
            await at.open(UPGRADE)
            answer = await at.ask()
            assert answer.startswith("HTTP/1.1 503 ")
            assert "Retry-After: " in answer

    run(test)


def test_a_worker_without_places_is_passed_over_even_by_its_own_visitor() -> None:
    async def test() -> None:
        async with front() as at:
            at.workers[0].places = at.workers[0].n_visitors = 1
            at.workers[1].n_visitors = 5
            assert (await at.ask(f"Cookie: {COOKIE}=0\r\n"))[-1] == "1"
            at.workers[0].n_visitors = 0
            at.workers[1].n_visitors = 0

    run(test)
