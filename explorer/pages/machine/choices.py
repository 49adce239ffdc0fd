"""What a visitor chooses on the Machine page."""

from dataclasses import dataclass

from explorer.ui.choices import choice


@dataclass(frozen=True)
class MachineChoices:
    """`sizes` is what the calculator counts, as `machine.sizes` reads it; "" is the own model."""

    sizes: str = choice("", str)
