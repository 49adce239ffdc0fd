"""Every step and view of the path with every shipped model: the sweep alone has the time."""

from collections.abc import Callable

import pytest
from designs import VISITS, Visit, sweep

pytestmark = pytest.mark.sweep


@sweep(VISITS["path"])
def test_no_frame_breaks(
    broken_frames: Callable[..., list[str]], model: str, visits: list[Visit]
) -> None:
    assert not broken_frames(visits, model)
