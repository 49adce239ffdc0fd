"""One request to a layer of the server, without the server."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass
class Answer:
    """What was sent, and how many parts of the request were unread at each message."""

    sent: list[Message]
    unread: list[int]

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(each.get("body", b"") for each in self.sent[1:])


async def _behind(scope: Scope, receive: Receive, send: Send) -> None:
    """The app behind the layer: answers "other", and reads nothing."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"other"})


def asked(
    layer: Callable[[ASGIApp], ASGIApp],
    place: str,
    headers: dict[str, str] | None = None,
    body: Iterable[bytes] = (),
    method: str = "GET",
) -> Answer:
    """What `layer` answers to a request for this path and query."""
    parts, answer = list(body) or [b""], Answer([], [])

    async def receive() -> Message:
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: Message) -> None:
        answer.sent.append(message)
        answer.unread.append(len(parts) if body else 0)

    path, _, query = place.partition("?")
    scope = {"type": "http", "method": method, "scheme": "https", "path": path}
    scope["query_string"] = query.encode()
    scope["headers"] = [(key.encode(), value.encode()) for key, value in (headers or {}).items()]
    in_a_thread(lambda: layer(_behind)(scope, receive, send))
    return answer


def in_a_thread(begin: Callable[[], Awaitable[object]]) -> object:
    """The result of a coroutine in a thread: this one may run a browser's event loop already."""

    async def bounded() -> object:
        async with asyncio.timeout(60):
            return await begin()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, bounded()).result()
