"""Choices on the Start page, and the mask changes that its picture offers, one click each."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from explorer.components.start import DOORS
from explorer.exhibits import PageChoices
from explorer.exhibits.choices import choice, one_of
from explorer.runs.edits import Edit, MaskSize, MaskSwitch

DoorChoice = Literal["", "head", "waves", "steps", "heads", "shut"]
SHUT: DoorChoice = "shut"
MaskName = Literal["trained", "causal", "alone"]
CHANGES: dict[MaskName, tuple[Edit, ...]] = {
    "trained": (),
    "causal": (MaskSwitch("causal", False),),
    "alone": (MaskSize("window", 1),),
}
"""Unchanged; without its causal mask; every token attends to itself alone."""


@dataclass(frozen=True)
class StartChoices(PageChoices):
    """`door` is what is open in the picture, "" for nothing; the head is shared by all pages.

    SHUT also means that nothing is open, but is written into the address: an address with a head
    and no door belongs to Heads, which was at the root in earlier versions. `asks`: the page has
    controls of the text and the model at its top, and no introduction.
    """

    parts: ClassVar[dict[str, tuple[str, ...]]] = {"": ("start.picture",)}
    asks: ClassVar[bool] = True
    door: DoorChoice = choice("", one_of((*DOORS, SHUT)))


def in_force(edits: tuple[Edit, ...]) -> str:
    """The name of the active change, "" if it is none of these."""
    changed = tuple(edit for edit in edits if isinstance(edit, MaskSwitch | MaskSize))
    return next((name for name, change in CHANGES.items() if change == changed), "")


def with_mask(edits: tuple[Edit, ...], name: MaskName) -> tuple[Edit, ...]:
    """`edits` with this change instead of all other mask rules."""
    others = (edit for edit in edits if not isinstance(edit, MaskSwitch | MaskSize))
    return (*others, *CHANGES[name])
