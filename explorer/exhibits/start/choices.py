"""Choices on the Start page."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from explorer.components.start import DOORS
from explorer.exhibits.choices import choice, one_of

DoorChoice = Literal["", "head", "waves", "steps", "heads", "shut"]
SHUT: DoorChoice = "shut"


@dataclass(frozen=True)
class StartChoices:
    """`door` is what is open in the picture, "" for nothing; the head is shared by all pages.

    SHUT also means that nothing is open, but is written into the address: an address with a head
    and no door belongs to Heads, which was at the root in earlier versions. `asks`: the page has
    controls of the text and the model at its top, and no introduction.
    """

    parts: ClassVar[dict[str, tuple[str, ...]]] = {"": ("start.picture",)}
    asks: ClassVar[bool] = True
    door: DoorChoice = choice("", one_of((*DOORS, SHUT)))
