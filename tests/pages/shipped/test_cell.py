"""The Attention cell page of every shipped design, with all its asides."""

from collections.abc import Callable

from designs import designs, parts_of

from explorer.pages.cell.choices import ASIDES


def test_no_frame_breaks(broken_frames: Callable[..., list[str]]) -> None:
    assert not broken_frames(
        [*parts_of("cell"), *(("cell", {"aside": aside}) for aside in ASIDES)], designs()
    )
