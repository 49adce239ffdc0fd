"""Common bugs: wrong code on purpose, each example next to the correct code.

Only the pages Pitfalls and Exercises, the tests and the notebook's `certify`, which quotes it,
import this package. Its functions never run as part of a model unless a user injects them.
"""

from explorer.analysis.bugs.card import Demonstration, Figure, MatrixPair, Pitfall
from explorer.analysis.bugs.fills import FILL_PITFALLS
from explorer.analysis.bugs.model import MODEL
from explorer.analysis.bugs.padding import PADDING
from explorer.analysis.bugs.plain import PLAIN_MODEL, PLAIN_TRAINING
from explorer.analysis.bugs.senses import SENSES
from explorer.analysis.bugs.shapes import SHAPES
from explorer.analysis.bugs.symptom import Symptom, symptom
from explorer.analysis.bugs.training import TRAINING

__all__ = [
    "BY_ID",
    "PITFALLS",
    "Demonstration",
    "Figure",
    "MatrixPair",
    "Pitfall",
    "Symptom",
    "symptom",
]

PITFALLS: tuple[Pitfall, ...] = (
    *SENSES,
    *SHAPES,
    *FILL_PITFALLS,
    *PADDING,
    *MODEL,
    *PLAIN_MODEL,
    *TRAINING,
    *PLAIN_TRAINING,
)
"""Every bug, in the order of the page."""
BY_ID = {pitfall.id: pitfall for pitfall in PITFALLS}
