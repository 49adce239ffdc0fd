"""Choices on the Circuits page."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from explorer.analysis.circuits.behaviour import BEHAVIOURS, Behaviour
from explorer.exhibits import PageChoices
from explorer.exhibits.choices import choice, one_of, unlinked

Map = Literal["ov", "qk"]
MAPS: tuple[Map, ...] = get_args(Map)
MADE_UP, OWN, BY_HAND = MADE_OF = ("random", "text", "by-hand")


@dataclass(frozen=True)
class CircuitsChoices(PageChoices):
    """`behaviour` is the ranking of heads (None: the behaviour that is clearest in this model),
    `made_of` the sequences of the induction circuit (random tokens, the open text repeated) or the
    hand-built model, `head_map` the map over the vocabulary. `by_chance` is the model that the user
    asked to compare with chance."""

    parts: ClassVar[dict[str, tuple[str, ...]]] = {
        "roles": ("circuits.roles",),
        "circuit": ("circuits.induction",),
        "vocabulary": ("circuits.vocabulary",),
        "heads": ("atlas.map", "atlas.head", "atlas.sentences"),
    }
    by_chance: str = unlinked("")
    behaviour: Behaviour | None = choice(None, one_of(BEHAVIOURS))
    made_of: str = choice(MADE_UP, one_of(MADE_OF))
    head_map: Map = choice("ov", one_of(MAPS))
