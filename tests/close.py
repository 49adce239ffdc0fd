"""Comparing tensors many hundred times."""

import torch
from torch import Tensor


def assert_close(actual: Tensor, expected: Tensor, atol: float, message: str | None = None) -> None:
    """As torch's own, which takes a third of a millisecond to find nothing wrong."""
    alike = actual.dtype == expected.dtype and actual.shape == expected.shape
    if not (alike and torch.allclose(actual, expected, atol=atol, rtol=0)):
        torch.testing.assert_close(actual, expected, atol=atol, rtol=0, msg=message)
