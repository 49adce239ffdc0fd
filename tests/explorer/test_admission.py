"""How many sessions a server takes; what the next visitor is told; what is silent is dropped."""

import asyncio
import logging
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from asgi import in_a_thread
from starlette.types import Message, Receive, Scope, Send

from explorer import admission
from explorer.admission import Admission, Capacity, Sparing, capacity

EXTENSIONS = {"websocket.http.response": {}}
PAGE: Scope = {
    "type": "http", "method": "GET", "path": "/models", "query_string": b"", "scheme": "http",
    "headers": [(b"accept", b"text/html")],
}  # fmt: skip
SESSION: Scope = {
    "type": "websocket", "path": admission.STREAM, "headers": [], "extensions": EXTENSIONS,
}  # fmt: skip


class Door:
    """An admission with two places, in front of an app that stays until it is told to go."""

    def __init__(self) -> None:
        self.go, self.entered = asyncio.Event(), asyncio.Semaphore(0)
        self.told: list[Message] = []
        self.admission = Admission(self.app, places=2)

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.told.append(await receive())
        if scope["type"] == "websocket":
            self.entered.release()
            await self.go.wait()
        else:
            await send({"type": "app"})

    async def ask(self, scope: Scope, message: Message | None = None) -> list[Message]:
        sent: list[Message] = []

        async def receive() -> Message:
            if message is None:
                await asyncio.Event().wait()  # never
            return message or {}

        async def send(each: Message) -> None:
            sent.append(each)

        await self.admission(scope, receive, send)
        return sent


def test_the_visitor_after_the_last_place_is_told_when_to_come_back_in_both_languages():
    async def test() -> None:
        door = Door()
        visits = [
            asyncio.create_task(door.ask(SESSION, {"type": "websocket.receive"})) for _ in "ab"
        ]
        for _ in visits:
            await door.entered.acquire()
        assert door.admission.n_open == 2
        start, body = await door.ask(PAGE, {"type": "http.request"})
        headers = dict(start["headers"])
        assert start["status"] == 503
        assert headers[b"retry-after"] == b"60"
        page = body["body"].decode()
        assert headers[b"content-length"] == str(len(body["body"])).encode()
        assert "All slots are taken" in page
        assert "60 秒后" in page
        assert 'content="60"' in page
        _, body = await door.ask(PAGE | {"path": "/"}, {"type": "http.request"})
        page = body["body"].decode()
        assert page.count("All slots are taken") == 1  # the picture is in its language
        assert 'data-first="' in page
        assert 'content="60"' in page
        assert "<template" not in page
        refused, _ = await door.ask(SESSION, {"type": "websocket.connect"})
        assert (refused["type"], refused["status"]) == ("websocket.http.response.start", 503)
        (closed,) = await door.ask(SESSION | {"extensions": {}}, {"type": "websocket.connect"})
        assert closed == {"type": "websocket.close", "code": 1013}
        health = {**PAGE, "headers": [(b"accept", b"*/*")]}
        assert await door.ask(health, {"type": "http.request"}) == [{"type": "app"}]
        door.go.set()
        await asyncio.gather(*visits)
        assert door.admission.n_open == 0
        assert await door.ask(PAGE, {"type": "http.request"}) == [{"type": "app"}]

    in_a_thread(test)


@pytest.mark.parametrize(
    ("departures", "seconds"),
    [((), 60), ((0,), 300), ((0, 5, 10, 400), 150), ((700,) * 9, 60), ((1,) * 200, 10)],
)
def test_the_wait_follows_from_how_often_visitors_leave(departures, seconds, monkeypatch):
    monkeypatch.setattr("explorer.admission.time.monotonic", lambda: 10_000.0)
    found = Admission(lambda *_: None, places=1)
    found._left.extend(10_000.0 - ago for ago in departures)
    assert found.wait == seconds


@pytest.mark.parametrize(
    ("scope", "told"),
    [
        ({**PAGE, "method": "PUT"}, {"type": "http.disconnect", "code": 1001}),
        (SESSION, {"type": "websocket.disconnect", "code": 1001}),
    ],
)
def test_a_body_or_a_session_that_never_begins_is_ended(scope, told, monkeypatch):
    monkeypatch.setattr(admission, "SILENT", 0.05)

    async def test() -> None:
        door = Door()
        door.go.set()
        await door.ask(scope)
        assert door.told == [told]

    in_a_thread(test)


def test_a_session_that_has_begun_may_be_silent(monkeypatch):
    monkeypatch.setattr(admission, "SILENT", 0.05)
    messages = iter(({"type": "websocket.connect"}, {"type": "websocket.receive"}))

    async def receive() -> Message:
        for each in messages:
            return each
        late = asyncio.Event()  # set after the deadline of the first message would have passed
        asyncio.get_running_loop().call_later(2 * admission.SILENT, late.set)
        await late.wait()
        return {"type": "websocket.receive", "bytes": b"late"}

    async def test() -> None:
        in_time = admission._in_time(receive, of="websocket.receive")
        assert [(await in_time())["type"] for _ in "ab"][-1] == "websocket.receive"
        assert (await in_time())["bytes"] == b"late"

    in_a_thread(test)


@pytest.mark.parametrize(
    ("cores", "gigabytes", "descriptors", "processes", "sessions", "limited_by"),
    [
        (2, 24, 65536, 2, 60, "cores"),
        (1, 24, 65536, 2, 30, "cores"),
        (8, 24, 65536, 1, 60, "cores"),
        (2, 1.6, 65536, 1, 50, "memory"),
        (2, 2.6, 65536, 2, 25, "memory"),
        (2, 0.5, 65536, 1, 1, "memory"),
        (2, 24, 64, 1, 6, "descriptors"),
    ],
)
def test_places_follow_from_cores_memory_and_descriptors(
    cores, gigabytes, descriptors, processes, sessions, limited_by, monkeypatch
):
    monkeypatch.delenv(admission.VARIABLE, raising=False)
    monkeypatch.setenv(admission.PROCESSES, str(processes))
    monkeypatch.setattr(admission, "_cores", lambda: range(cores))
    monkeypatch.setattr(admission, "_memory", lambda: int(gigabytes * 1e9))
    monkeypatch.setattr(admission, "raised_descriptors", lambda: descriptors)
    found = capacity()
    assert found.sessions == sessions
    assert str(found) == f"takes {sessions} sessions per process (limited by {limited_by})"


def test_the_environment_sets_another_number(monkeypatch):
    monkeypatch.setenv(admission.VARIABLE, "7")
    assert capacity() == Capacity(7, 7, 7)
    for wrong in ("0", "-1", "many", "²"):
        monkeypatch.setenv(admission.VARIABLE, wrong)
        with pytest.raises(ValueError, match=r"HEADLIGHT_SESSIONS must be .*, not '"):
            capacity()


def test_one_line_of_code_cannot_fill_the_log():
    now, written = [0.0], []
    sparing = Sparing(lambda: now[0])

    def log(line: int, message: str = "said") -> None:
        record = logging.LogRecord("of", logging.ERROR, "file", line, message, None, None)
        if sparing.filter(record):
            written.append(record.getMessage())

    for _ in range(1000):
        log(1)
    log(2)
    assert len(written) == admission.LINES + 1
    now[0] = 61.0
    log(1)
    assert written[-1] == f"said ({1000 - admission.LINES} more like this in the last minute)"


class Connection:
    """A connection of uvicorn's."""

    def __init__(self, cycle: object = None, n_connections: int = 1) -> None:
        self.cycle, self.connections = cycle, range(n_connections)
        self.aborted = asyncio.Event()
        self.transport = Mock(abort=self.aborted.set)
        self.transport.is_closing.return_value = False
        self.transport.get_protocol.return_value = self


def test_half_sent_requests_are_dropped_and_too_many_connections_refused(monkeypatch):
    monkeypatch.setattr(admission, "SILENT", 0.05)

    async def test() -> None:
        half, asking = Connection(), Connection(SimpleNamespace(response_complete=False))
        second_half = Connection(SimpleNamespace(response_complete=True))
        for each in (half, asking, second_half):
            admission.watch(each, asyncio.get_running_loop())
        await asyncio.gather(half.aborted.wait(), second_half.aborted.wait())
        assert not asking.aborted.is_set()
        asking.transport.is_closing.return_value = True  # ends its look
        beyond = Connection(n_connections=admission.MOST_CONNECTIONS + 1)
        admission.watch(beyond, asyncio.get_running_loop())
        beyond.transport.write.assert_called_once_with(admission.BUSY)
        beyond.transport.close.assert_called_once()

    assert admission.BUSY.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: 10" in admission.BUSY
    in_a_thread(test)
