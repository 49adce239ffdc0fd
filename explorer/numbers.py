"""Numbers formatted for pages, figures, components and reports alike.

A minus sign is as wide as a plus ("−", not a hyphen), a space precedes "%", and NaN is shown as
such; a value that rounds to 0 has no sign ("0 %", "+0.00"). The numbers that components draw in the
browser follow `components/numbers.js`.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_PERCENTS = np.array([f"{tenths / 10:.1f} %" for tenths in range(1001)], object)


def minus(text: str) -> str:
    """A formatted number with hyphens replaced by minus signs."""
    return text.replace("-", "−")


def fixed(value: float, decimals: int = 2) -> str:
    """0.25 or −0.25; NaN as –."""
    return "–" if math.isnan(value) else minus(f"{value:z.{decimals}f}")


def signed(value: float, decimals: int = 2) -> str:
    """+0.25 or −0.25."""
    return minus(f"{value:+z.{decimals}f}")


def digits(value: float, n: int = 3) -> str:
    """`n` significant digits: 0.00123, 1.2e−05."""
    return minus(f"{value:.{n}g}")


def number(value: float) -> str:
    """A number as Markdown: 1.1 · 10⁻¹⁵ if it is small, NaN if it is not a number."""
    if not math.isfinite(value):
        return "NaN"
    if value == 0 or value >= 0.01:
        return f"{value:.2g}"
    mantissa, power = f"{value:.1e}".split("e")
    raised = str(int(power)).translate(_RAISED)
    return f"10{raised}" if mantissa == "1.0" else f"{mantissa} · 10{raised}"


def tabled(value: float) -> str:
    """A number in a table of findings: integers in full, others with three digits, NaN as –."""
    if math.isnan(value):
        return "–"
    if float(value).is_integer() and abs(value) < 1e15:
        return minus(f"{int(value):,}")
    return minus(f"{value:,.0f}") if abs(value) >= 1000 else digits(value)


def percent(weight: float) -> str:
    """A weight as text: "71 %", and "0.4 %" if whole numbers would hide it."""
    return whole_percent(weight) if weight >= 0.095 else f"{100 * weight:z.1f} %"


def whole_percent(weight: float) -> str:
    """A weight without decimals: "71 %", "0 %"."""
    return f"{weight:z.0%}"[:-1] + " %"


def share(value: float) -> str:
    """A share as in `percent`, with zero without decimals: "0 %", not "0.0 %"."""
    return "0 %" if abs(value) < 1e-5 else percent(value)


def percents(weights: NDArray[np.floating[Any]]) -> NDArray[np.object_]:
    """Weights 0 to 1 as text with one decimal: "12.3 %"; values that round to zero are "< 0.1 %".

    The thousand texts are cached: formatting each of 128 x 128 cells would take 30 ms.
    """
    tenths = np.rint(np.clip(weights, 0, 1) * 1000).astype(np.int16)
    return np.where((tenths == 0) & (weights > 0), "< 0.1 %", _PERCENTS[tenths])


def compact(value: float) -> str:
    """A number next to its bar: 63.1 M, 12,345, 0.25; NaN as –."""
    if math.isnan(value):
        return "–"
    if abs(value) >= 1e6:
        return f"{value / 1e6:,.1f} M"
    return f"{value:,.0f}" if abs(value) >= 1000 else digits(value)


def byte_size(n_bytes: float) -> str:
    """Bytes as 1.3 GB, 42.0 MB, 7.5 kB, 12 B."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= scale:
            return f"{n_bytes / scale:,.1f} {unit}"
    return f"{n_bytes} B"


def root(value: float) -> str:
    """A number as the root of an integer if it is one: "√64", "√18"; 1 stays "1"."""
    square = round(value**2)
    return f"√{square}" if square > 1 and math.isclose(value**2, square) else fixed(value, 0)
