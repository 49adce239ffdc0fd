"""Every claim that is not about the opened model, beside every shipped model."""

from collections.abc import Callable

from designs import VISITS, Visit, sweep


@sweep(VISITS["trained"], turns=0)
def test_no_frame_breaks_for_a_claim_that_trains(
    broken_frames: Callable[..., list[str]], model: str, visits: list[Visit]
) -> None:
    assert not broken_frames(visits, model)


@sweep(VISITS["fixed"])
def test_no_frame_breaks(
    broken_frames: Callable[..., list[str]], model: str, visits: list[Visit]
) -> None:
    assert not broken_frames(visits, model)
