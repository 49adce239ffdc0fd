"""Server additions to Streamlit that make the first picture appear sooner.

`streamlit run` answers long before it runs any code of the app, which happens on the first visit.
While the browser loads Streamlit's front end, a thread imports the app, opens the model of
a first visit and runs its sentence. The front end's hundred files are served from memory, for
each of which Streamlit accesses the file system in several threads; and TCP sends without delay.
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
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import cli_util, config, file_util
from streamlit.runtime import Runtime
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.caching.ttl_cache import TTLCache
from streamlit.runtime.scriptrunner import RerunData
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequests, ScriptRequestType
from streamlit.runtime.session_manager import SessionInfo
from streamlit.starlette import App
from streamlit.web.server import server_util
from uvicorn import Server
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from explorer.admission import bound_the_log, capacity, watch
from explorer.leftovers import sweep

OFTEN = 0.0005
"""Seconds until a waiting thread gets the interpreter. Python's default, 0.005, would delay
every request of a browser by that much while the imports run."""
EVERY = 1.0
"""Seconds between two checks for expired sessions."""
FOREVER = "public, immutable, max-age=31536000"
"""As set by Streamlit for these files: their names are hashes of their content."""


def send_at_once() -> None:
    """Let every connection send without delay, and limit all of them.

    TCP otherwise holds a small message back until the other end has acknowledged the previous one,
    up to 40 ms later (Nagle's algorithm, RFC 896; delayed acknowledgements, RFC 1122).
    asyncio disables that if a listening socket names TCP as its protocol; Streamlit's does
    not. So each small file took 44 ms, and messages of the websocket, which begins as such a
    connection, were delayed too.
    """
    connected = AutoHTTPProtocol.connection_made

    def connection_made(self: Any, transport: asyncio.BaseTransport) -> None:
        connection: socket.socket = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected(self, transport)
        watch(self, self.loop)

    AutoHTTPProtocol.connection_made = connection_made  # type: ignore[method-assign]


class Batches:
    """Callbacks of one session's threads for the event loop, delivered in batches, in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_due = False

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call it on the event loop, from any thread. No effect once the loop is closed."""
        self._waiting.append(callback)
        if not self._is_due:
            self._is_due = True
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        self._is_due = False  # first, so that later callbacks trigger another wake-up
        while self._waiting:
            callback = self._waiting.popleft()
            self._loop.call_soon(callback)  # logs its exceptions


def hand_over_in_batches() -> None:
    """Wake the event loop once for all messages that a script has sent since it last ran.

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


def keep_the_page() -> None:
    """Rerun a part of a page on the page that is open by then, or that was requested before.

    A request names the page that the browser shows. While that is still busy, the server may have
    gone on to the next page; Streamlit would then return to the earlier one, run nothing of it but
    that part, and leave the page empty. If the next page is still waiting to be run, Streamlit
    would merge both requests into a run of the earlier one: the user's click or Back is lost.
    """
    usual, fold = ScriptRunner._run_script, ScriptRequests._request_rerun_locked

    def run_script(self: ScriptRunner, rerun_data: RerunData) -> None:
        if rerun_data.fragment_id_queue:
            now = self._pages_manager.current_page_script_hash
            rerun_data = replace(rerun_data, page_script_hash=now)
        usual(self, rerun_data)

    def request(self: ScriptRequests, new_data: RerunData) -> bool:
        waiting = self._rerun_data
        is_part = new_data.fragment_id or new_data.fragment_id_queue
        if is_part and self._state == ScriptRequestType.RERUN:
            new_data = replace(
                new_data,
                page_script_hash=waiting.page_script_hash,
                page_name=waiting.page_name,
                query_string=waiting.query_string,
            )
        return fold(self, new_data)

    ScriptRunner._run_script = run_script  # type: ignore[method-assign]
    ScriptRequests._request_rerun_locked = request  # type: ignore[method-assign]


def load_libraries() -> None:
    """Let the system load torch's libraries while Python still imports the rest of Streamlit.

    `import torch` loads them too, but holds the interpreter while it does; ctypes does not. If
    they are not found or cannot be loaded, `import torch` is as fast as before, or reports why.
    """
    found = find_spec("torch")
    for folder in (found and found.submodule_search_locations) or ():
        for path in Path(folder, "lib").glob("libtorch_python.*"):
            with suppress(OSError):
                ctypes.CDLL(str(path))


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[None]:
    """Prepare everything when the server starts, and open a browser; shut down cleanly.

    A thread that still computes or imports while Python is torn down would abort the process.
    """
    send_at_once()
    bound_the_log(asyncio.get_running_loop())
    sweep()
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
    from explorer.engine.turns import end  # imports torch, which that thread has done

    end()
    end_without_signal()


async def let_go() -> None:
    """End each session `disconnectedSessionTTL` after its user left, until cancelled.

    Streamlit drops such a session only when another user leaves, and does not shut it down. Its
    three descriptors and its last Trace then wait for a garbage collection. A reference to the
    session is held here until its script has ended: only then does it close them.
    """
    while not Runtime.exists():
        await asyncio.sleep(EVERY)
    manager = Runtime.instance()._session_mgr
    left = getattr(getattr(manager, "_session_storage", None), "_cache", None)
    if not isinstance(left, TTLCache):
        return
    ending: set[AppSession] = set()

    def end(session_id: str, info: SessionInfo) -> None:
        if not manager.is_active_session(session_id):  # otherwise the user is back
            ending.add(info.session)
            info.session.shutdown()

    left._on_remove = end
    while True:
        await asyncio.sleep(EVERY)
        left.expire()
        ending -= {session for session in ending if session._scriptrunner is None}


def end_without_signal() -> None:
    """Let uvicorn forget the signal that ended it.

    It would raise the signal again after it has shut down: Ctrl-C would then end `streamlit run`
    with "Aborted!" and status 1, and SIGTERM before Python has cleaned up.
    """
    server = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
    if isinstance(server, Server):
        server._captured_signals.clear()


def get_ready(over: threading.Event) -> None:
    """Import the app, and compute the content of a first visit in advance.

    Then watch memory (`engine.memory`). Once the server is `over`, the rest is skipped.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(OFTEN)
    gc.disable()  # imported objects stay: collecting among them takes a fifth of the time
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
    """Serves the files of Streamlit's front end from memory; passes other requests to `app`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        root = Path(file_util.get_static_dir())
        self._files = {
            f"/{path.relative_to(root).as_posix()}": path
            for path in (root / "static").rglob("*")
            if path.is_file()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request (ASGI)."""
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
    """The content of a file and its media type; some 8 MB in total are ever requested."""
    return path.read_bytes(), mimetypes.guess_type(path.name)[0] or "application/octet-stream"
