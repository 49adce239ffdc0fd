"""What a process takes of memory, as Linux counts it. Imported by both sides of a comparison."""

from collections.abc import Callable
from pathlib import Path


def growth(keeping: Callable[[], object]) -> dict[str, float]:
    """MB by which this process grows: while what `keeping` returns is held, and at the most."""
    Path("/proc/self/clear_refs").write_text("5")  # the most so far is forgotten
    before = _status()["VmRSS"]
    held = keeping()
    after = _status()
    del held
    return {"kept": after["VmRSS"] - before, "peak": after["VmHWM"] - before}


def resident() -> float:
    """MB that this process has in memory now."""
    return _status()["VmRSS"] * 1.024**2


def _status() -> dict[str, float]:
    lines = [line.split() for line in Path("/proc/self/status").read_text().splitlines()]
    return {words[0][:-1]: int(words[1]) / 1024 for words in lines if words[-1] == "kB"}
