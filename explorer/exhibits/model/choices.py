"""Choices on the Model page."""

from dataclasses import dataclass
from typing import ClassVar

from explorer.exhibits import PageChoices
from explorer.exhibits.choices import choice, one_of, unlinked, whole

ASIDES = ("differences", "tying")


@dataclass(frozen=True)
class ModelChoices(PageChoices):
    """`sizes` are the calculator's sizes, in the format of `machine.sizes` ("": the open model).
    `unfolded` is the layer drawn part by part, `further` the open aside, `spot` the token whose
    logits it decomposes. `recounted`: published tables are recounted."""

    parts: ClassVar[dict[str, tuple[str, ...]]] = {
        "": ("model.boxes", "model.calculator", "model.reach", "model.differences", "model.tying")
    }
    sizes: str = choice("", str)
    unfolded: int = choice(0, whole(0, 1023))
    further: str = choice("", one_of(ASIDES))
    spot: int = choice(0, whole(0, 1023))
    recounted: bool = unlinked(False)
