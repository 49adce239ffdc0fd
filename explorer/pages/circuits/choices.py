"""Choices on the Circuits page."""

from dataclasses import dataclass
from typing import ClassVar

from explorer.analysis.circuits.behaviour import BEHAVIOURS, Behaviour
from explorer.analysis.circuits.composition import WAYS, Way
from explorer.analysis.circuits.vocabulary import MAPS, Map
from explorer.exhibits.choices import choice, one_of

MADE_UP, OWN, BY_HAND = MADE_OF = ("random", "text", "by-hand")


@dataclass(frozen=True)
class CircuitsChoices:
    """`behaviour` is what the heads are ranked by (None: what some head does most clearly),
    `made_of` the rows of the induction circuit (random tokens, the open text said twice) or the
    model built by hand, `head_map` which map over the vocabulary is shown, `composed` the way in
    which heads read each other.
    """

    parts: ClassVar[tuple[str, ...]] = ("roles", "circuit", "vocabulary", "composition")
    behaviour: Behaviour | None = choice(None, one_of(BEHAVIOURS))
    made_of: str = choice(MADE_UP, one_of(MADE_OF))
    head_map: Map = choice("ov", one_of(MAPS))
    composed: Way = choice("k", one_of(WAYS))
