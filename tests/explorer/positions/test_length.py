"""The loss at later positions."""

import numpy as np
import pytest

from explorer.analysis.positions.length import MOST_SHIFT, most_shift, shift_losses
from explorer.runs.trace import trace


def test_losses_by_shift(tiny):
    rotary = tiny("writer", family="decoder-only", positions="rotary")
    flat = shift_losses(rotary, trace(rotary, "The cat ran"), "tgt", (0, 9, 200))
    np.testing.assert_allclose(flat, flat[0], atol=1e-4)
    sines = tiny()
    traced = trace(sines, "The cat ran", "猫跑开了")
    losses = shift_losses(sines, traced, "src", (0, 9))
    assert losses[0] != pytest.approx(losses[1], abs=1e-4)


def test_learned_positions_end(tiny):
    assert most_shift(tiny(positions="learned", n_ctx=20), 8) == 12
    assert most_shift(tiny(), 8) == MOST_SHIFT
