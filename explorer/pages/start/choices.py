"""Choices on the Start page."""

from dataclasses import dataclass
from typing import Literal

from explorer.components.start import DOORS
from explorer.exhibits.choices import choice, one_of

DoorChoice = Literal["", "head", "waves", "steps", "heads", "shut"]
SHUT: DoorChoice = "shut"


@dataclass(frozen=True)
class StartChoices:
    """`door` is what is open in the picture, "" for nothing; the head is the one of all pages.

    SHUT is nothing too, written out: an address that points at a head and names no door is one of
    Heads, which was at the root in earlier versions.
    """

    door: DoorChoice = choice("", one_of((*DOORS, SHUT)))
