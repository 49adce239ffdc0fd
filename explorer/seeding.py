"""Repeatable randomness where torch offers only its global generator: fresh weights, dropout."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from explorer.passes import undisturbed

_turn = threading.RLock()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run a block with torch's global generator at `seed`; afterwards its state is restored.

    There is one such generator for all sessions, so their blocks take turns, and nobody goes first
    meanwhile, who might wait for it: keep them short.
    """
    with undisturbed(), _turn, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
