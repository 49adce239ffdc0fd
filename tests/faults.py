"""The common bugs by their ids, and what the tests of several of them compare."""

import torch
from torch import Tensor

from explorer.analysis.bugs import PITFALLS, Figure

BY_ID = {pitfall.id: pitfall for pitfall in PITFALLS}


def figure(fault: str, name: str, of: str = "") -> Figure:
    """A number that the card of a fault shows without a reader's model."""
    figures = BY_ID[fault].demonstrate(None).figures
    (found,) = (each for each in figures if (each.name, each.of) == (name, of))
    return found


def close(found: Tensor, expected: list[float], atol: float = 5e-4) -> None:
    """`found` has these values along its last axis."""
    wanted = torch.tensor(expected).to(found).expand(found.shape)
    torch.testing.assert_close(found, wanted, atol=atol, rtol=0)
