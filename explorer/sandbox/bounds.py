"""What a process gives up that reads what a stranger wrote: memory, time, files, being first."""

import math
import os
import sys
import time

if sys.platform != "win32":
    import resource


def bounded(room: int, written: int = 0) -> None:
    """Take at most `room` bytes besides those that this process has, and write none of a file.

    `written`: bytes that a file may have. On other systems than Linux memory is not bounded.
    """
    if sys.platform == "win32":
        return
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_FSIZE, (written, written))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            taken = next(int(line.split()[1]) for line in status if line.startswith("VmData"))
    except (OSError, StopIteration):
        return  # no Linux: the app's deadline remains
    limit = taken * 1024 + room
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def allow(seconds: int) -> None:
    """Let this process compute for so many seconds from now, and up to one more; then it is ended.

    Seconds of its own, whatever else the machine does.
    """
    if sys.platform != "win32":
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + seconds, most))
