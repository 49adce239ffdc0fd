"""Every pitfall and every quick claim for encoders alone."""

import pytest
from shown import Open

from explorer.analysis.claims import CLAIMS
from explorer.analysis.clinic import PITFALLS

TEXT = "She reads a [MASK] every morning."


@pytest.mark.parametrize("model", ["reader", "headless"])
def test_every_pitfall_and_every_quick_claim_opens(open_page: Open, model: str) -> None:
    for pitfall in PITFALLS:
        assert not open_page("clinic", model=model, text=TEXT, case=pitfall.id).exception, (
            pitfall.id
        )
    for claim in CLAIMS:
        if claim.own and (not claim.slow or claim.id == "parallel"):
            at = open_page("claims", model=model, text=TEXT, claim=claim.id, guess="true")
            assert not at.exception, claim.id
