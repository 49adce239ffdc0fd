"""Cases: common bugs, each next to the correct code; common claims, each with its experiment; and
choices, each with the ways in which libraries make them.

The wrong code never runs as part of a model unless a user injects it. Only the pages that show it,
the exercises, the notebook's `certify`, which quotes it, and the tests import it.
"""

from explorer.analysis.cases import attention, blocks, compared, cost, counting, positions
from explorer.analysis.cases.backend import BACKEND, LAYOUTS, OPTIONS
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
    "VERDICTS",
    "Case",
    "Result",
    "ResultRow",
]

BUGS = (*MASKS, *SHAPES, *FILL_BUGS, *PADDING, *MODEL, *TRAINING)
"""Every bug, in the order of the page."""

_EXPERIMENTS = {
    "attention": (
        attention.variance, attention.saturation, attention.fills, attention.reference,
        compared.one_head,
    ),
    "counting": (
        counting.mha_count, counting.ffn_table, counting.tying, counting.shape_flow,
        counting.layer_shapes, counting.totals, compared.tying_quality,
    ),
    "cost": (
        cost.rms_speed, cost.fused_speed, cost.fused_qkv, cost.free_heads, cost.parallel,
        cost.quadratic,
    ),
    "positions": (
        positions.offset_only, positions.frequencies, positions.extrapolation,
        positions.causal_order, compared.no_positions, compared.learned_positions,
    ),
    "blocks": (
        compared.warmup, blocks.deep_pre, compared.norm_stabilises, compared.swiglu_equal,
        compared.rms_quality, blocks.original, blocks.batch_norm, blocks.gelu_tanh,
    ),
}  # fmt: skip
CLAIMS = (
    *(Case(test.__name__, group, test) for group, tests in _EXPERIMENTS.items() for test in tests),
    Case("reach", "attention", attention.reach),
    Case("tied_logits", "counting", counting.tied_logits),
)
"""Every claim; links hold the guesses in this order, so new ones are last."""
CHOICES = (NOTATION, FILL, DESIGN, BACKEND, OPTIONS, LAYOUTS)
"""Every choice, in the order of the page."""
BY_ID = {case.id: case for case in (*BUGS, *CLAIMS, *CHOICES)}
