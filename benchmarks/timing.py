"""Time functions in turn, so that changes in machine speed affect them equally."""

import statistics
import time
from collections.abc import Callable


def medians(functions: dict[str, Callable[[], object]], runs: int = 7) -> dict[str, float]:
    """Median seconds of each function over `runs` rounds, after one warm-up round."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for counted in range(-1, runs):
        for name, function in functions.items():
            started = time.perf_counter()
            function()
            if counted >= 0:
                seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in seconds.items()}


def quantiles_row(name: str, seconds: list[float]) -> str:
    """One line: the median and the slowest time, in milliseconds."""
    middle, slowest = 1000 * statistics.median(seconds), 1000 * max(seconds)
    return f"{name:<58} {middle:9.1f} ms   slowest {slowest:.1f} ms"


def rows(times: dict[str, float], reference: str) -> list[str]:
    """One line per function: milliseconds, and how many times faster it is than `reference`."""
    return [
        f"{name:<58} {1000 * value:9.1f} ms   {times[reference] / value:5.2f} x"
        for name, value in times.items()
    ]
