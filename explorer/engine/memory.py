"""Return unused memory to the operating system.

Python triggers garbage collection by the number of objects, but a single object may be a run of a
hundred megabytes. Freed memory then remains in the C library, in one arena for each of the many
threads that run scripts. So the server monitors the size of its own process.
"""

import ctypes
import gc
from contextlib import suppress
from mmap import PAGESIZE
from pathlib import Path
from threading import Event

GROWN = 128 * 2**20
"""Growth in bytes that triggers a collection, which stops all threads for about 50 ms."""
OFTEN = 5.0
"""Seconds between two checks."""


def resident() -> int:
    """Resident memory of this process in bytes; 0 if the system does not report it."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGESIZE
    return 0


def give_back() -> None:
    """Collect all garbage and make glibc return free memory; other C libraries do it themselves."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def look_after(over: Event) -> None:
    """Return memory whenever the process has grown by `GROWN`, until the server is `over`."""
    least = resident()
    while not over.wait(OFTEN):
        now = resident()
        if now > least + GROWN:
            give_back()
            now = least = resident()
        least = min(least, now)
