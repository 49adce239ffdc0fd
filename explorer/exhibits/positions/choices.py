"""Choices on the Positions page."""

from dataclasses import dataclass
from typing import ClassVar

from explorer.analysis.positions.changes import REMOVE, PositionChange, format_change, parse_change
from explorer.analysis.positions.turning import LAYOUTS
from explorer.exhibits import PageChoices
from explorer.exhibits.choices import RefusedError, choice, dotted, one_of, whole

MOST_DIMS = 6
"""Most waves drawn at once."""


def _dims(text: str) -> tuple[int, ...]:
    dims = () if text == "none" else tuple(whole(0, 1023)(piece) for piece in text.split("."))
    if len(dims) > MOST_DIMS or len(set(dims)) < len(dims):
        raise RefusedError(text)
    return dims


@dataclass(frozen=True)
class PositionsChoices(PageChoices):
    """`base`, `width`, `length` and `dims` (the drawn waves) belong to the table; `change` is the
    change of a stream's positions, `shuffle` a seed, `layout` the layout of rotated pairs, `place`
    the token whose sum is drawn."""

    parts: ClassVar[dict[str, tuple[str, ...]]] = {
        "order": ("positions.order", "positions.texts"),
        "head": ("positions.head",),
        "table": ("positions.table",),
        "rotary": ("positions.rotary",),
        "sum": ("positions.sum",),
    }
    pictures: ClassVar[tuple[str, ...]] = ("weights", "scores", "difference")
    base: int = choice(10_000, whole(2, 1_000_000))
    width: int = choice(64, whole(2, 1024))
    length: int = choice(64, whole(16, 256))
    dims: tuple[int, ...] | None = choice(None, _dims, lambda dims: dotted(dims) or "none")
    layout: str = choice("", one_of(LAYOUTS))
    change: PositionChange = choice(REMOVE, parse_change, format_change)
    shuffle: int | None = choice(None, whole(0, 9999))
    place: int = choice(1, whole(0, 1023))
