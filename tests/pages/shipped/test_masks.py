"""The pages of patterns and masks of every shipped design."""

from collections.abc import Callable

from designs import designs, parts_of


def test_no_frame_breaks(broken_frames: Callable[..., list[str]]) -> None:
    assert not broken_frames(parts_of("masks"), designs())
