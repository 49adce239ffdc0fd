"""Repeatable randomness where torch offers only its global generator: fresh weights, dropout."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from explorer.runs.passes import Exclusive

_GENERATOR = Exclusive()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run a block with torch's global generator at `seed`; its state is restored afterwards.

    All sessions share this generator, so their blocks run one at a time: keep them short.
    """
    with _GENERATOR.held(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
