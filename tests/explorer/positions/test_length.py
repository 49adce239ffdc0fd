"""Longer than trained."""

from collections.abc import Callable

import numpy as np
import pytest

from explorer.analysis.positions.length import (
    MOST_SHIFT,
    Toy,
    by_length,
    most_shift,
    shift_losses,
    toy_of,
)
from explorer.library import CHECKPOINTS, LoadedModel, list_models, open_model
from explorer.runs.trace import trace

Tiny = Callable[..., LoadedModel]


def test_losses_by_shift(tiny: Tiny) -> None:
    rotary = tiny("writer", family="decoder-only", positions="rotary")
    flat = shift_losses(rotary, trace(rotary, "The cat ran"), "tgt", (0, 9, 200))
    np.testing.assert_allclose(flat, flat[0], atol=1e-4)
    sines = tiny()
    traced = trace(sines, "The cat ran", "猫跑开了")
    losses = shift_losses(sines, traced, "src", (0, 9))
    assert losses[0] != pytest.approx(losses[1], abs=1e-4)


def test_learned_positions_end(tiny: Tiny) -> None:
    assert most_shift(tiny(positions="learned", n_ctx=20), 8) == 12
    assert most_shift(tiny(), 8) == MOST_SHIFT


def test_the_task_of_a_toy_comes_from_its_recipe() -> None:
    assert toy_of("reverse") == toy_of("reverse@40") == Toy("reverse", 2, 10, 20)
    assert toy_of("en-zh") is None
    assert toy_of("nobody") is None


@pytest.mark.skipif("reverse" not in list_models(CHECKPOINTS), reason="no checkpoint of reverse")
def test_reversing_ends_where_training_did() -> None:
    toy = toy_of("reverse")
    assert toy is not None
    found = by_length(open_model("reverse"), toy, (6, 16), n_rows=12)
    assert found.exact[0] > 0.85
    assert found.exact[1] < 0.2
    assert found.letters[0] > found.letters[1]
