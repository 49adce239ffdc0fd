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
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import cli_util, config, file_util
from streamlit.starlette import App
from streamlit.web.server import server_util

from explorer.admission import bound_the_log, capacity
from explorer.guard import zipped
from explorer.once import once
from explorer.patches import end_without_signal, let_go, send_at_once
from explorer.sandbox.apart import sweep
from explorer.scripts import FOLDER, SCRIPTS, script

OFTEN = 0.0005
"""Seconds until a waiting thread gets the interpreter. Python's default, 0.005, would delay
every request of a browser by that much while the imports run."""
FIRST_ANSWERS = 0.3
"""Seconds for the page of a first visitor, whose picture needs no torch: the imports that follow
would delay it by 0.2."""
FOREVER = "public, immutable, max-age=31536000"
"""As set by Streamlit for these files: their names are hashes of their content."""


def load_libraries() -> None:
    """Let the system load torch's libraries while Python imports other modules.

    `import torch` loads them too, but holds the interpreter while it does; ctypes does not. If
    they are not found or cannot be loaded, `import torch` is as fast as before, or reports why.
    """
    spec = find_spec("torch")
    for folder in (spec and spec.submodule_search_locations) or ():
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


def get_ready(over: threading.Event) -> None:
    """Import the app, and compute the content of a first visit in advance.

    Then watch memory (`engine.memory`). Once the server is `over`, the rest is skipped.
    """
    if over.wait(FIRST_ANSWERS):
        return
    usual = sys.getswitchinterval()
    sys.setswitchinterval(OFTEN)
    threading.Thread(target=load_libraries, daemon=True).start()
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
    """Serves the files of Streamlit's front end and the scripts of our views from memory; passes
    other requests to `app`.

    A visit's 100 files take 1 ms of processor time instead of 140 to 230, and 2.3 MB instead of
    6.3, since they are compressed.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    @once
    def _files(self) -> dict[str, Path]:
        """By address; listed when the first is asked for, after the first page."""
        root = Path(file_util.get_static_dir())
        return {
            f"/{path.relative_to(root).as_posix()}": path
            for path in (root / "static").rglob("*")
            if path.is_file()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request (ASGI)."""
        answer = None
        if scope["type"] == "http" and scope["method"] == "GET":
            inside = scope["path"].startswith("/static/")
            path = self._files.get(scope["path"]) if inside else None
            answer = _view(scope["path"]) if path is None else _read(path)
        if answer is None:
            await self._app(scope, receive, send)
            return
        content, kind = answer
        headers = {"content-type": kind, "cache-control": FOREVER}
        await zipped(scope, content, headers, kept=True)(scope, receive, send)


def _view(path: str) -> tuple[bytes, str] | None:
    """The script of a view and its media type; None if the path names none of this version."""
    folder, _, file = path.rpartition("/")
    view = file.partition(".")[0]
    if folder.rpartition("/")[2] != SCRIPTS or not (FOLDER / f"{view}.css").is_file():
        return None
    text, current = script(view)
    return (text.encode(), "text/javascript") if file == current else None


@cache
def _read(path: Path) -> tuple[bytes, str]:
    """The content of a file and its media type; some 8 MB in total are ever requested."""
    return path.read_bytes(), mimetypes.guess_type(path.name)[0] or "application/octet-stream"
