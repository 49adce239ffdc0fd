"""What the server does beside Streamlit, so that the first picture comes soon.

`streamlit run` answers long before it runs any code of the app, which it does for the first
visitor. While her browser loads Streamlit's front end, a thread imports the app, opens the model of
a first visit and runs its sentence. The hundred files of that front end are answered from memory,
where Streamlit asks the file system in several threads for each; and nothing that is sent waits.
"""

import asyncio
import ctypes
import gc
import mimetypes
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import cli_util, config, file_util
from streamlit.runtime import Runtime
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.caching.ttl_cache import TTLCache
from streamlit.runtime.session_manager import SessionInfo
from streamlit.starlette import App
from streamlit.web.server import server_util
from uvicorn import Server
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from explorer.admission import bound_the_log, capacity, watch

OFTEN = 0.0005
"""Seconds after which a thread that waits for the interpreter gets it. Python's usual 0.005 would
hold up every one of a browser's requests by that, as long as the imports take."""
EVERY = 1.0
"""Seconds between two looks for sessions whose time is over."""
FOREVER = "public, immutable, max-age=31536000"
"""As Streamlit says of them: the name of such a file is a hash of its content."""


def send_at_once() -> None:
    """Let every connection send what is written to it without delay, and bound them all.

    TCP otherwise holds a small message back until the other end has confirmed the one before, which
    it does up to 40 ms later (Nagle's algorithm, RFC 896; delayed acknowledgements, RFC 1122).
    asyncio switches that off where a listening socket names TCP as its protocol; Streamlit's does
    not. So each small file took 44 ms, and messages of the websocket, which begins as such a
    connection, waited too.
    """
    connected = AutoHTTPProtocol.connection_made

    def connection_made(self: Any, transport: asyncio.BaseTransport) -> None:
        connection: socket.socket = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected(self, transport)
        watch(self, self.loop)

    AutoHTTPProtocol.connection_made = connection_made  # type: ignore[method-assign]


class Batches:
    """What one session's threads ask of the event loop, taken over many at a time, in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_due = False

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call it on the event loop; from any thread. Does nothing once the loop is closed."""
        self._waiting.append(callback)
        if not self._is_due:
            self._is_due = True
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        self._is_due = False  # before looking: what comes later is called by a further wake-up
        while self._waiting:
            callback = self._waiting.popleft()
            self._loop.call_soon(callback)  # reports what it raises


def hand_over_in_batches() -> None:
    """Wake the event loop once for all that a script has sent since the loop last looked.

    Streamlit wakes it twice for each of a page's some 150 messages. A wake-up is a write to a
    socket, and the script and the loop wait for the interpreter in turn.
    """

    def call_soon(self: AppSession, callback: Callable[[], None]) -> None:
        batches: Batches | None = self.__dict__.get("headlight")
        if batches is None:
            batches = self.__dict__.setdefault("headlight", Batches(self._event_loop))
        batches.call_soon(callback)

    def enqueued(self: Runtime) -> None:
        shared = self._get_async_objs()
        if asyncio._get_running_loop() is shared.eventloop:
            shared.need_send_data.set()
        else:
            shared.eventloop.call_soon_threadsafe(shared.need_send_data.set)

    AppSession._call_soon_on_event_loop = call_soon  # type: ignore[method-assign]
    Runtime._enqueued_some_message = enqueued  # type: ignore[method-assign]


def load_libraries() -> None:
    """Let the system load torch's libraries while Python still imports the rest of Streamlit.

    `import torch` loads them too, and holds the interpreter meanwhile, which ctypes does not. Where
    they are not found or cannot be loaded, `import torch` is as fast as ever, or says why.
    """
    found = find_spec("torch")
    for folder in (found and found.submodule_search_locations) or ():
        for path in Path(folder, "lib").glob("libtorch_python.*"):
            with suppress(OSError):
                ctypes.CDLL(str(path))


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[None]:
    """As the server starts everything is made ready, and a browser opened; it ends in peace.

    A thread that still computes or imports while Python is torn down would abort the process.
    """
    send_at_once()
    bound_the_log(asyncio.get_running_loop())
    leaving = asyncio.create_task(let_go())
    over = threading.Event()
    getting_ready = threading.Thread(target=get_ready, args=(over,), name="get ready", daemon=True)
    getting_ready.start()
    address = config.get_option("browser.serverAddress") or config.get_option("server.address")
    url = server_util.get_url(server_util.get_display_address(address or "localhost"))
    print(f"headlight: {url}", flush=True)
    print(f"headlight: {capacity()}", flush=True)
    if not config.get_option("server.headless"):
        cli_util.open_browser(url)
    yield
    leaving.cancel()
    over.set()
    getting_ready.join()
    from explorer.engine.turns import end  # with torch, which that thread has imported

    end()
    end_without_signal()


async def let_go() -> None:
    """End each session `disconnectedSessionTTL` after its visitor left, until cancelled.

    Streamlit drops such a session only when another visitor leaves, and does not shut it down. Its
    three descriptors and its last Trace then wait for a garbage collection. A session is held here
    until its script is over: only then does it close them.
    """
    while not Runtime.exists():
        await asyncio.sleep(EVERY)
    manager = Runtime.instance()._session_mgr
    left = getattr(getattr(manager, "_session_storage", None), "_cache", None)
    if not isinstance(left, TTLCache):
        return
    ending: set[AppSession] = set()

    def end(session_id: str, info: SessionInfo) -> None:
        if not manager.is_active_session(session_id):  # else the visitor is back
            ending.add(info.session)
            info.session.shutdown()

    left._on_remove = end
    while True:
        await asyncio.sleep(EVERY)
        left.expire()
        ending -= {session for session in ending if session._scriptrunner is None}


def end_without_signal() -> None:
    """Let uvicorn forget the signal that ended it.

    It would send it to itself again, once it has shut down: Ctrl-C would then end `streamlit run`
    with "Aborted!" and status 1, and SIGTERM before Python has cleared up.
    """
    server = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
    if isinstance(server, Server):
        server._captured_signals.clear()


def get_ready(over: threading.Event) -> None:
    """Import the app, and compute what a first visit shows: nobody need wait for it twice.

    Then memory is looked after. Once the server is `over`, what is left is left out.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(OFTEN)
    gc.disable()  # what is imported stays: to look through it for garbage takes a fifth of the time
    try:
        from explorer import shell
        from explorer.engine import memory

        shell.get_ready()
    finally:
        gc.enable()
        sys.setswitchinterval(usual)
    shell.get_ready_for_others(over)
    memory.look_after(over)


class FromMemory:
    """Answers requests for the files of Streamlit's front end; all others go on to `app`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        root = Path(file_util.get_static_dir())
        self._files = {
            f"/{path.relative_to(root).as_posix()}": path
            for path in (root / "static").rglob("*")
            if path.is_file()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI passes it."""
        path = self._files.get(scope.get("path", ""))
        if path is None or scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        content, kind = _read(path)
        headers = {
            "content-type": kind,
            "content-length": str(len(content)),
            "cache-control": FOREVER,
        }
        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": encoded})
        await send({"type": "http.response.body", "body": content})


@cache
def _read(path: Path) -> tuple[bytes, str]:
    """The content of a file and its media type; some 8 MB of them are ever asked for."""
    return path.read_bytes(), mimetypes.guess_type(path.name)[0] or "application/octet-stream"
