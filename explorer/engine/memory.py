"""What nobody holds any more goes back to the system.

Python counts objects to decide when to look for those that hold one another, and one of them may be
a run of a hundred megabytes. What is freed then stays with the C library, in an arena for each of
the many threads that scripts run in. So the server looks at the size of its own process.
"""

import ctypes
import gc
from contextlib import suppress
from mmap import PAGESIZE
from pathlib import Path
from threading import Event

GROWN = 128 * 2**20
"""Bytes by which the process grows before it is worth the time: some 50 ms, of all threads."""
OFTEN = 5.0
"""Seconds between two looks."""


def resident() -> int:
    """Bytes that this process has in memory; 0 where the system does not say."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGESIZE
    return 0


def give_back() -> None:
    """Look for all garbage, and let glibc return what is free; other C libraries do it alone."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def look_after(over: Event) -> None:
    """Give memory back whenever the process has grown by `GROWN`, until the server is `over`."""
    least = resident()
    while not over.wait(OFTEN):
        now = resident()
        if now > least + GROWN:
            give_back()
            now = least = resident()
        least = min(least, now)
