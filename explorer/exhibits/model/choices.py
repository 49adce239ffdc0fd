"""Choices on the Model page."""

from dataclasses import dataclass
from typing import ClassVar

from explorer.exhibits import PageChoices
from explorer.exhibits.choices import choice, whole


@dataclass(frozen=True)
class ModelChoices(PageChoices):
    """`sizes` are the calculator's sizes, in the format of `machine.sizes` ("": the open model).
    `unfolded` is the layer drawn part by part."""

    parts: ClassVar[dict[str, tuple[str, ...]]] = {
        "whole": ("model.boxes", "model.calculator"),
        "norms": ("blocks.norms", "blocks.backward"),
        "residual": ("blocks.residual", "blocks.twins"),
        "activations": ("blocks.activations",),
        "hidden": ("blocks.hidden",),
        "experts": ("blocks.experts",),
    }
    sizes: str = choice("", str)
    unfolded: int = choice(0, whole(0, 1023))
