"""Wrong code on purpose: the faults that everybody makes once, each beside the right lines.

Only the clinic's page, its cache and the tests import this package. Its functions are never part
of a model's run unless a visitor plants them there.
"""

from explorer.analysis.pitfalls.card import Demonstration, Figure, Picture, Pitfall
from explorer.analysis.pitfalls.fills import FILL_PITFALLS
from explorer.analysis.pitfalls.model import MODEL
from explorer.analysis.pitfalls.padding import PADDING
from explorer.analysis.pitfalls.senses import SENSES
from explorer.analysis.pitfalls.shapes import SHAPES
from explorer.analysis.pitfalls.symptom import Symptom, symptom
from explorer.analysis.pitfalls.training import TRAINING

__all__ = ["PITFALLS", "Demonstration", "Figure", "Picture", "Pitfall", "Symptom", "symptom"]

PITFALLS: tuple[Pitfall, ...] = (
    *SENSES,
    *SHAPES,
    *FILL_PITFALLS,
    *PADDING,
    *MODEL,
    *TRAINING,
)
"""Every fault, in the order of the page."""
