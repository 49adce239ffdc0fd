"""Every claim about the opened model, for every shipped design; test_claims.py has the others."""

from collections.abc import Callable

from designs import designs, parts_of

from explorer.analysis.claims import CLAIMS


def test_no_frame_breaks(broken_frames: Callable[..., list[str]]) -> None:
    assert not broken_frames(
        [
            *parts_of("claims"),
            *(("claims", {"claim": claim.id, "guess": "true"}) for claim in CLAIMS if claim.own),
        ],
        designs(),
    )
