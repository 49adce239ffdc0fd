"""A new user's first minutes: a clone, the README's two commands, no caches; then no network.

    python -m benchmarks.fresh [--python python3.12] [--picture FILE] [--test]

In a temporary folder, as a user with an empty home: clone as in the README, `make run` until a
browser shows the first picture, then the same app in a network namespace with loopback only (Linux,
`unshare`), and with `--test` also `make test`. Of the environment, only the settings of the package
index (PIP_* and proxies) are preserved.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.first_picture import PICTURE
from tests.browser.app import ROOT, answers, chromium, free_port

MOST_WAITED = 900
"""Seconds for an installation and a start."""
OFFLINE = ["unshare", "--map-root-user", "--net"]
KEPT = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


def environment(home: Path) -> dict[str, str]:
    """A new user's environment: an empty home, PATH, and access to the package index."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
    return kept | {"HOME": str(home), "PATH": os.defpath + ":/usr/local/bin", "LANG": "C.UTF-8"}


def megabytes(folder: Path) -> float:
    """The size of all files in a folder, in MB."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir()) / 1e6


@contextmanager
def started(command: list[str], clone: Path, home: Path) -> Iterator[tuple[float, str]]:
    """A command that serves the app: seconds until it answers, and its address.

    Raises RuntimeError with its last output if it exits or does not answer in MOST_WAITED seconds.
    """
    port = free_port()
    env = environment(home) | {
        "STREAMLIT_SERVER_PORT": str(port),
        "STREAMLIT_SERVER_HEADLESS": "true",
    }
    begun = time.perf_counter()
    said = home / "said.txt"
    with said.open("wb") as out:
        server = subprocess.Popen(
            command, cwd=clone, env=env, stdout=out, stderr=out, start_new_session=True
        )
    try:
        while not answers(f"http://127.0.0.1:{port}/_stcore/health"):
            if server.poll() is not None or time.perf_counter() - begun > MOST_WAITED:
                raise RuntimeError(said.read_text(errors="replace")[-2000:])
            time.sleep(0.2)
        yield time.perf_counter() - begun, f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=60)


def seen(address: str, picture: Path | None) -> float:
    """Seconds from opening the page to its first picture; saves a screenshot to `picture`."""
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        opened = time.perf_counter()
        page.goto(address)
        page.locator(PICTURE).first.wait_for(timeout=120_000)
        took = time.perf_counter() - opened
        if picture is not None:
            page.screenshot(path=picture)
    return took


def offline(clone: Path, home: Path) -> str:
    """Run the app without a network, in its own namespace; one line with the result."""
    if shutil.which(OFFLINE[0]) is None:
        return "not measured: this system has no `unshare`"
    inside = f"ip link set lo up && exec {sys.executable} -m benchmarks.fresh --in {clone} {home}"
    done = subprocess.run(
        [*OFFLINE, "sh", "-c", inside], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or f"failed: {done.stderr.strip()[-300:]}"


def serve(clone: Path) -> list[str]:
    """The command that serves the app of an installed clone."""
    return [str(clone / ".venv/bin/streamlit"), "run", "app.py"]


def main() -> int:
    """Print a line for each step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--python", default="python3")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--test", action="store_true", help="run `make test` as well")
    parser.add_argument("--in", nargs=2, type=Path, dest="inside", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        clone, home = args.inside
        with started(serve(clone), clone, home) as (took, address):
            print(f"answers after {took:.1f} s, picture {seen(address, None):.1f} s later")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        home, clone = Path(folder) / "home", Path(folder) / "headlight"
        home.mkdir()
        subprocess.run(
            ["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", str(clone)], check=True
        )
        print(f"clone: {megabytes(clone):.1f} MB, of which {megabytes(clone / '.git'):.1f} of git")
        with started(["make", "run", f"PYTHON={args.python}"], clone, home) as (took, address):
            print(f"`make run` answers after {took:.0f} s, installation included")
            print(f"first picture {seen(address, args.picture):.1f} s after opening the page")
        print(f"installed: {megabytes(clone / '.venv'):.0f} MB; home: {megabytes(home):.1f} MB")
        print(f"without a network: {offline(clone, home)}")
        if args.test:
            begun = time.perf_counter()
            code = subprocess.run(
                ["make", "test", f"PYTHON={args.python}"],
                cwd=clone,
                env=environment(home),
                check=False,
            ).returncode
            print(f"`make test`: status {code} after {time.perf_counter() - begun:.0f} s")
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
