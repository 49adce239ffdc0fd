"""What a visitor chooses on the Masks page."""

from dataclasses import dataclass
from typing import ClassVar

from explorer.analysis.masks.conventions import (
    READERS,
    RENDERINGS,
    ReaderName,
    RenderingName,
)
from explorer.analysis.masks.fills import WAYS, Way
from explorer.exhibits.choices import choice, one_of, whole

MOST_LOWERED = 60_000
"""A little less than float16 can hold (65,504)."""


@dataclass(frozen=True)
class MasksChoices:
    """`pictures` is what the comparison of patterns can show; the first is what it opens with.

    `rendering` is how the mask is written and `reader` the code that it is handed to; `way` is how
    a fill is applied, and `lowered` what is taken from all scores beforehand.
    """

    parts: ClassVar[tuple[str, ...]] = ("matrices", "conventions", "fills")
    pictures: ClassVar[tuple[str, ...]] = ("sides", "scores", "difference")
    rendering: RenderingName = choice("keep", one_of(RENDERINGS))
    reader: ReaderName = choice("mha", one_of(READERS))
    way: Way = choice("filled", one_of(WAYS))
    lowered: int = choice(0, whole(0, MOST_LOWERED))
