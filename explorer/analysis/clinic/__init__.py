"""Common bugs: wrong code on purpose, each example next to the correct code.

Only the pages Pitfalls and Exercises, the tests and the notebook's `certify`, which quotes it,
import this package. Its functions never run as part of a model unless a user injects them.
"""

from explorer.analysis.clinic.card import Demonstration, Figure, MatrixPair, Pitfall
from explorer.analysis.clinic.fills import FILL_PITFALLS
from explorer.analysis.clinic.model import MODEL
from explorer.analysis.clinic.padding import PADDING
from explorer.analysis.clinic.plain import PLAIN_MODEL, PLAIN_TRAINING
from explorer.analysis.clinic.senses import SENSES
from explorer.analysis.clinic.shapes import SHAPES
from explorer.analysis.clinic.symptom import Symptom, symptom
from explorer.analysis.clinic.training import TRAINING

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
