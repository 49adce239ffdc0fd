"""What a visitor chooses on the Machine page."""

from dataclasses import dataclass

from explorer.ui.choices import choice, one_of

ASIDES = ("differences",)


@dataclass(frozen=True)
class MachineChoices:
    """`sizes` is what the calculator counts, as `machine.sizes` reads it; "" is the own model.
    `further` is the aside that is open.
    """

    sizes: str = choice("", str)
    further: str = choice("", one_of(ASIDES))
