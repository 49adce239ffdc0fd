"""Which cases of a test run every time; the others wait for `make sweep`."""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def core(cases: Iterable[Any], among: Container[Any]) -> list[Any]:
    """Parameters of a test, of which those that are not `among` these run in the sweep only."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=() if case in among else pytest.mark.sweep,
        )
        for case in cases
    ]


def every(n: int, cases: Iterable[Any]) -> list[Any]:
    """The same with each n-th of them every time."""
    listed = list(cases)
    return core(listed, listed[::n])
