"""Common claims about Transformers, each with the experiment that tests it.

A claim is a function that runs with the user's model and sentence and returns numbers and a verdict
that follows from them.
"""

from explorer.analysis.claims.attention import ATTENTION
from explorer.analysis.claims.blocks import BLOCKS
from explorer.analysis.claims.card import (
    GROUPS,
    VERDICTS,
    Claim,
    Curves,
    Result,
    ResultRow,
    Verdict,
)
from explorer.analysis.claims.compared import COMPARED
from explorer.analysis.claims.cost import COST
from explorer.analysis.claims.counting import COUNTING
from explorer.analysis.claims.depth import DEPTHS
from explorer.analysis.claims.positions import POSITIONS

__all__ = [
    "BY_ID",
    "CLAIMS",
    "GROUPS",
    "VERDICTS",
    "Claim",
    "Curves",
    "Result",
    "ResultRow",
    "Verdict",
]

CLAIMS: tuple[Claim, ...] = tuple(
    sorted(
        (*ATTENTION, *COUNTING, *COST, *POSITIONS, *DEPTHS, *COMPARED, *BLOCKS),
        key=lambda claim: GROUPS.index(claim.group),
    )
)
"""Every claim, group by group, in the order of the page."""
BY_ID = {claim.id: claim for claim in CLAIMS}
