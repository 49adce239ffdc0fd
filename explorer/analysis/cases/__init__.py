"""Cases: common bugs, each next to the correct code; common claims, each with its experiment; and
choices, each with the ways in which libraries make them.

The wrong code never runs as part of a model unless a user injects it. Only the pages that show it,
the exercises, the notebook's `certify`, which quotes it, and the tests import it.
"""

from collections.abc import Callable
from typing import Any

from explorer.analysis.cases import attention, blocks, compared, cost
from explorer.analysis.cases.backend import BACKEND
from explorer.analysis.cases.case import GROUPS, VERDICTS, Case, Result, ResultRow
from explorer.analysis.cases.design import DESIGN
from explorer.analysis.cases.fills import FILL, FILL_BUGS
from explorer.analysis.cases.inside import MODEL
from explorer.analysis.cases.loops import TRAINING
from explorer.analysis.cases.masks import MASKS, SHAPES
from explorer.analysis.cases.notation import NOTATION
from explorer.analysis.cases.padding import PADDING

__all__ = [
    "BUGS",
    "BY_ID",
    "CHOICES",
    "CLAIMS",
    "GROUPS",
    "GUESSED",
    "VERDICTS",
    "Case",
    "Result",
    "ResultRow",
]

BUGS = (*MASKS, *SHAPES, *FILL_BUGS, *PADDING, *MODEL, *TRAINING)
"""Every bug, in the order of the page."""

_EXPERIMENTS: dict[str, tuple[Callable[..., Any], ...]] = {
    "attention": (attention.variance, attention.saturation, compared.one_head),
    "counting": (cost.mha_count, compared.tying_quality),
    "cost": (cost.rms_speed, cost.fused_speed, cost.quadratic),
    "positions": (compared.causal_order, compared.learned_positions),
    "blocks": (
        compared.warmup, compared.norm_stabilises, blocks.original, blocks.gelu_tanh,
    ),
}  # fmt: skip
CLAIMS = tuple(
    Case(test.__name__, group, test) for group, tests in _EXPERIMENTS.items() for test in tests
)
"""Every claim, in the order of the page."""
GUESSED = (
    "variance", "saturation", "", "", "one_head", "mha_count", "", "", "", "", "",
    "tying_quality", "rms_speed", "fused_speed", "", "", "", "quadratic", "", "",
    "", "causal_order", "", "learned_positions", "warmup", "", "norm_stabilises",
    "", "", "original", "", "gelu_tanh", "", "",
)  # fmt: skip
"""The claims in the order in which links hold the guesses, "" for one that has been removed."""
CHOICES = (NOTATION, FILL, DESIGN, BACKEND)
"""Every choice, in the order of the page."""
BY_ID = {case.id: case for case in (*BUGS, *CLAIMS, *CHOICES)}
