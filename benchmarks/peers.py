"""Separate environments for libraries to compare with, which are not dependencies.

They are created in `.bench/`, which git ignores. Only the peer's package is installed there; torch
and other installed packages are shared with this project's environment, so both use one build.
"""

import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / ".bench"


class NoPeerError(RuntimeError):
    """The peer is not available; the message says why."""


def environment(name: str, requirement: str) -> Path:
    """The Python of the environment with `requirement` installed, made at the first call.

    Raises NoPeerError, with the installer's last line, if it cannot be installed.
    """
    folder = FOLDER / name
    python = folder / "bin" / "python"
    ready = folder / "ready"
    if ready.exists() and ready.read_text() == requirement:
        return python
    venv.create(folder, clear=True, with_pip=True)
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    Path(site, "shared.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    install = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement],
        capture_output=True,
        text=True,
    )
    if install.returncode:
        lines = install.stderr.strip().splitlines()
        raise NoPeerError(lines[-1] if lines else f"pip ended with {install.returncode}")
    ready.write_text(requirement)
    return python


class Peer:
    """A script in the peer's environment that answers one JSON line with one JSON line.

    Both sides are measured in turn, so that changes in machine speed affect them equally. Raises
    NoPeerError if the script does not start.
    """

    def __init__(self, python: Path, script: str) -> None:
        self._process = subprocess.Popen(
            [str(python), str(Path(__file__).with_name(script))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={"PATH": str(Path(sys.executable).parent), "HF_HUB_OFFLINE": "1"},
        )
        if self.ask({"hello": True}) != {"ready": True}:
            raise NoPeerError(f"{script} did not start")

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for the response. Raises NoPeerError if the peer has exited."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise NoPeerError(f"the peer ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the script."""
        self._process.kill()
        self._process.wait()
