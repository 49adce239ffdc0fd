"""The training room beside every shipped model: it looks at none of them."""

from collections.abc import Callable

from designs import VISITS, Visit, sweep


@sweep(VISITS["training"], turns=0)
def test_no_frame_breaks(
    broken_frames: Callable[..., list[str]], model: str, visits: list[Visit]
) -> None:
    assert not broken_frames(visits, model)
