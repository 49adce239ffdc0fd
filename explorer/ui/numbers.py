"""Numbers as a reader takes them in."""

import math

from explorer.ui.controls import percent


def number(value: float) -> str:
    """A number as Markdown: 1.1 · 10⁻¹⁵ where it is small, NaN where it is none."""
    if math.isinf(value):
        return "NaN"
    if value == 0 or value >= 0.01:
        return f"{value:.2g}"
    digits, power = f"{value:.1e}".split("e")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if digits == "1.0" else f"{digits} · 10{raised}"


def share(value: float) -> str:
    """A share as `percent` says it, where rounding is nothing: "0 %", not "0.0 %"."""
    return "0 %" if abs(value) < 1e-5 else percent(value)


def signed(value: float) -> str:
    """+0.25 or −0.25, two decimals."""
    return f"{value:+.2f}".replace("-", "−")
