"""The Atlas page of every shipped model, part by part."""

from collections.abc import Callable

import pytest
from designs import VISITS, Visit, sweep

pytestmark = pytest.mark.sweep


@sweep(VISITS["atlas"])
def test_no_frame_breaks(
    broken_frames: Callable[..., list[str]], model: str, visits: list[Visit]
) -> None:
    assert not broken_frames(visits, model)
