"""Numbers as a reader takes them in."""

import math

import numpy as np
import pytest

from explorer.numbers import (
    byte_size,
    compact,
    digits,
    fixed,
    number,
    percent,
    percents,
    share,
    signed,
    tabled,
    whole_percent,
)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (fixed(0.254), "0.25"),
        (fixed(-1.0, 3), "−1.000"),
        (fixed(math.nan), "–"),
        (signed(0.25), "+0.25"),
        (signed(-0.2549, 3), "−0.255"),
        (fixed(-1e-7), "0.00"),
        (signed(-1e-7, 3), "+0.000"),
        (whole_percent(-2e-7), "0 %"),
        (percent(-2e-7), "0.0 %"),
        (digits(-0.0012345), "−0.00123"),
        (digits(0.000012345), "1.23e−05"),
        (number(1.13e-15), "1.1 · 10⁻¹⁵"),
        (number(1e-7), "10⁻⁷"),
        (number(0.0), "0"),
        (number(0.256), "0.26"),
        (number(math.inf), "NaN"),
        (number(math.nan), "NaN"),
        (tabled(-12345.0), "−12,345"),
        (tabled(1234.5), "1,234"),
        (tabled(0.12345), "0.123"),
        (tabled(math.nan), "–"),
        (percent(0.71), "71 %"),
        (percent(0.0949), "9.5 %"),
        (percent(0.004), "0.4 %"),
        (whole_percent(0.004), "0 %"),
        (share(1e-6), "0 %"),
        (share(0.002), "0.2 %"),
        (compact(63_082_496), "63.1 M"),
        (compact(12_345), "12,345"),
        (compact(0.12345), "0.123"),
        (compact(math.nan), "–"),
        (byte_size(1_300_000_000), "1.3 GB"),
        (byte_size(42_000_000), "42.0 MB"),
        (byte_size(7_500), "7.5 kB"),
        (byte_size(12), "12 B"),
    ],
)
def test_a_number_reads_as_it_should(shown: str, text: str) -> None:
    assert shown == text


def test_many_weights_at_once_have_one_decimal() -> None:
    shown = percents(np.array([[0.0, 0.0004, 0.123], [0.75, 1.0, 0.0006]]))
    assert shown.tolist() == [["0.0 %", "< 0.1 %", "12.3 %"], ["75.0 %", "100.0 %", "0.1 %"]]
