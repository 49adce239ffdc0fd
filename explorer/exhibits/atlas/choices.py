"""Choices about the atlas of a model, on the Circuits page."""

from dataclasses import dataclass

from explorer.analysis.roles import MEASURES
from explorer.exhibits import PageChoices
from explorer.exhibits.choices import choice, model_name, one_of, whole

AXES: tuple[str, ...] = ("entropy", "deviation", "distance", "cost", "depth", *MEASURES)
"""The possible axes of the map: numbers of a head, and its share of each measure."""


@dataclass(frozen=True)
class AtlasChoices(PageChoices):
    """`across` and `up` are the axes of the map ("": default). `sentence` is the open sentence of a
    head; sentences are filtered by `shortest` and `longest` (tokens), by a word `containing`, and
    by the least percentage `least`. `against` is a model to compare with, `traced` the measure
    followed over training."""

    across: str = choice("", one_of(AXES))
    up: str = choice("", one_of(AXES))
    sentence: int = choice(1, whole(1, 20))
    shortest: int = choice(0, whole(0, 9999))
    longest: int = choice(0, whole(0, 9999))
    containing: str = choice("", str)
    least: int = choice(0, whole(0, 100))
    against: str = model_name()
    traced: str = choice("", one_of(MEASURES))
