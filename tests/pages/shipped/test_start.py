"""Start, for every shipped model."""

from collections.abc import Callable

from designs import VISITS, Visit, sweep


@sweep(VISITS["start"])
def test_no_frame_breaks(
    broken_frames: Callable[..., list[str]], model: str, visits: list[Visit]
) -> None:
    assert not broken_frames(visits, model)
