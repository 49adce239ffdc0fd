"""Choices on the Machine page."""

from dataclasses import dataclass

from explorer.exhibits.choices import choice, one_of, whole

ASIDES = ("differences", "tying", "history")


@dataclass(frozen=True)
class MachineChoices:
    """`sizes` is what the calculator counts, as `machine.sizes` reads it; "" is the own model.
    `unfolded` is the layer of a deep model that is drawn in full between the first and the last.
    `further` is the aside that is open, `spot` the token whose logits it takes apart.
    """

    sizes: str = choice("", str)
    unfolded: int = choice(0, whole(0, 1023))
    further: str = choice("", one_of(ASIDES))
    spot: int = choice(0, whole(0, 1023))
