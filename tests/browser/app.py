"""The real app in a real browser: start Streamlit on a free port, open Chromium on it.

Used by the browser tests' fixtures and by the benchmark of the first picture.
"""

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from playwright.sync_api import Browser, sync_playwright
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import ClientConnection

from tests.browser.chromium import find

ROOT = Path(__file__).parents[2]
PATIENCE = 180_000  # milliseconds; a busy machine is no reason for a red test
SETTLED = """() => {
    const main = document.querySelector('[data-testid=stMain]');
    const drawn = document.querySelector('[data-testid=stApp]')
        ?.getAttribute('data-test-script-state') === 'notRunning'
        && main?.querySelector('[data-testid=stMarkdown]')
        && !document.querySelector('[data-stale=true], [data-testid=stProgress]');
    const height = drawn ? main.scrollHeight : 0;
    window.walked = height && window.walked?.height === height
        ? { height, times: window.walked.times + 1 } : { height, times: 0 };
    return window.walked.times >= 4;
}"""
"""Drawn, without work in progress, and of the same height in five looks: charts come later."""
LOOKS = 150  # milliseconds between two of them
# No sandbox: tests often run as root in a container. The others keep Chromium from looking for
# its maker's hosts, so that every request that is seen is the app's.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port


@contextmanager
def serving(command: Sequence[str], port: int, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The process of `python` with these arguments, once it answers on this port; `options` are
    Popen's. Raises RuntimeError where it ends before.
    """
    quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    server = subprocess.Popen([sys.executable, *command], **({"cwd": ROOT} | quiet | options))
    try:
        until_answering(server, port)
        yield server
    finally:
        server.terminate()
        server.wait(timeout=60)  # it may have to end a computation first


@contextmanager
def running_app(script: str = "app.py") -> Iterator[str]:
    """`streamlit run` of a script of this project, answering; its address."""
    port = free_port()
    arguments = ["run", script, "--server.port", str(port), "--server.headless", "true"]
    command = ["-m", "streamlit", *arguments, "--server.address", "127.0.0.1"]
    with serving(command, port):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def running_workers(n_workers: int = 2) -> Iterator[tuple[str, int]]:
    """`headlight app --workers` of this project; its address and its process."""
    port = free_port()
    start = "import sys; from explorer.cli import main; sys.exit(main())"
    command = ["-c", start, "app", "--workers", str(n_workers), "--port", str(port)]
    if n_workers == 1:
        command += ["--server.headless", "true"]
    with serving(command, port) as server:
        yield f"http://localhost:{port}", server.pid


def messages(
    client: ClientConnection, query: str = "", page: str = "", kept: Sequence[str] = ()
) -> Iterator[ForwardMsg]:
    """What the app sends to a browser that opens this page, until its script has finished; `kept`
    are the hashes of messages that the browser has."""
    request = BackMsg()
    request.rerun_script.cached_message_hashes[:] = kept
    request.rerun_script.query_string, request.rerun_script.page_name = query, page
    client.send(request.SerializeToString())
    kind = ""
    while kind != "script_finished":
        message = ForwardMsg.FromString(cast("bytes", client.recv(timeout=180)))
        kind = message.WhichOneof("type")
        yield message


def until_answering(server: subprocess.Popen[bytes], port: int | str) -> None:
    """Wait until a server answers on this port of this machine, for three minutes at most.

    The pause between two requests leaves the core to the server. Raises RuntimeError if it ends,
    and TimeoutError.
    """
    until = time.monotonic() + 180
    while not answers(f"http://127.0.0.1:{port}/_stcore/health"):
        with suppress(subprocess.TimeoutExpired):
            raise RuntimeError(f"the server ended with status {server.wait(timeout=0.1)}")
        if time.monotonic() > until:
            raise TimeoutError(f"the server does not answer on port {port}")


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def launching() -> dict[str, Any]:
    """What Playwright is told to start a Chromium with. Raises RuntimeError where there is none."""
    path = find()
    if path is None:
        raise RuntimeError("no Chromium found: `make chromium` installs one, or set $CHROMIUM")
    return {"executable_path": path, "args": list(FLAGS), "timeout": PATIENCE}


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium. Raises RuntimeError, saying what to do, where there is none."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launching())
        yield browser
        browser.close()
