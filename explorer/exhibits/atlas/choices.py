"""Choices about the atlas of a model, on the Circuits page."""

from dataclasses import dataclass

from explorer.analysis.roles import MEASURES
from explorer.exhibits import PageChoices
from explorer.exhibits.choices import choice, one_of, whole

AXES: tuple[str, ...] = ("entropy", "deviation", "distance", "cost", "depth", *MEASURES)
"""The possible axes of the map: numbers of a head, and its share of each measure."""


@dataclass(frozen=True)
class AtlasChoices(PageChoices):
    """`across` and `up` are the axes of the map ("": default). `sentence` is the open sentence of a
    head."""

    across: str = choice("", one_of(AXES))
    up: str = choice("", one_of(AXES))
    sentence: int = choice(1, whole(1, 20))
