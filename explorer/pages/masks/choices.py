"""What a visitor chooses on the Masks page."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class MasksChoices:
    """`pictures` is what the comparison of patterns can show; the first is what it opens with."""

    pictures: ClassVar[tuple[str, ...]] = ("sides", "scores", "difference")
