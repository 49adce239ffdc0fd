"""Choices on the Machine page."""

from dataclasses import dataclass

from explorer.exhibits.choices import choice, one_of, whole

ASIDES = ("differences", "tying", "history")


@dataclass(frozen=True)
class MachineChoices:
    """`sizes` are the calculator's sizes, in the format of `machine.sizes` ("": the open model).
    `unfolded` is the layer drawn part by part. `further`
    is the open aside, `spot` the token whose logits it decomposes.
    """

    sizes: str = choice("", str)
    unfolded: int = choice(0, whole(0, 1023))
    further: str = choice("", one_of(ASIDES))
    spot: int = choice(0, whole(0, 1023))
