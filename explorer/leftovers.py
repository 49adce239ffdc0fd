"""Temporary files of this app, and those that a killed process has left."""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


def prefix() -> str:
    """How the name of a temporary file or folder of this process begins."""
    return f"headlight-{os.getpid()}-"


def sweep() -> None:
    """Delete the temporary files of dead processes: a user's picture, model or training."""
    if os.name != "posix":  # signal 0 below ends a process on Windows
        return
    for path in Path(tempfile.gettempdir()).glob("headlight-*-*"):
        owner = path.name.split("-")[1]
        if owner.isdecimal() and not _is_alive(int(owner)):
            with suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # owned by another user
        return True
    return True
