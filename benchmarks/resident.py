"""Memory of a process as reported by Linux. Imported by both sides of a comparison."""

from collections.abc import Callable
from pathlib import Path


def growth(keeping: Callable[[], object]) -> dict[str, float]:
    """Growth of this process in MB: while the result of `keeping` is held, and at the peak."""
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = _status()["VmRSS"]
    held = keeping()
    after = _status()
    del held
    return {"kept": after["VmRSS"] - before, "peak": after["VmHWM"] - before}


def resident() -> float:
    """The resident memory of this process in MB."""
    return _status()["VmRSS"] * 1.024**2


def _status() -> dict[str, float]:
    lines = [line.split() for line in Path("/proc/self/status").read_text().splitlines()]
    return {words[0][:-1]: int(words[1]) / 1024 for words in lines if words[-1] == "kB"}
