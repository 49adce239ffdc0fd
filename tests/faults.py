"""The common bugs by their ids, and what the tests of several of them compare."""

from typing import NamedTuple

import torch
from torch import Tensor

from explorer.analysis.cases import BY_ID


class Ways(NamedTuple):
    """A number of the wrong lines, and the same of the right ones."""

    wrong: float
    right: float


def figure(fault: str, name: str, of: str = "") -> Ways:
    """A number that a bug shows without a reader's model."""
    rows = BY_ID[fault].compared().rows
    (row,) = (each for each in rows if (each.name, each.of) == (name, of))
    return Ways(*row.values)


def close(found: Tensor, expected: list[float], atol: float = 5e-4) -> None:
    """`found` has these values along its last axis."""
    wanted = torch.tensor(expected).to(found).expand(found.shape)
    torch.testing.assert_close(found, wanted, atol=atol, rtol=0)
