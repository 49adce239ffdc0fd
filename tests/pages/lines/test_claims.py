"""A claim shows its experiment; one that trains models is asked for before the guess."""

import pytest
from seen_lines import Open, Seen, check, check_visit, visit

from explorer.analysis.claims import CLAIMS, Claim
from explorer.ui.code.source import lines_of


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_what_is_shown_ran(open_page: Open, seen: Seen, claim: Claim) -> None:
    if not claim.slow:
        check_visit(open_page, seen, "claims", {"claim": claim.id, "guess": "true"})
        return
    visit(open_page, "en-zh", "claims", {"claim": claim.id})
    (panel,) = seen.panels.values()
    check(panel)
    assert lines_of([claim.test])[0].text == panel.lines[0].text
    assert panel.lines[0].calls
