"""The user's choices on this page."""

from dataclasses import dataclass
from typing import ClassVar

from explorer.exhibits import PageChoices
from explorer.exhibits.choices import choice, whole


@dataclass(frozen=True)
class EntropyChoices(PageChoices):
    """`entropy_floor` is the smallest weight that counts, in percent."""

    parts: ClassVar[dict[str, tuple[str, ...]]] = {"": ("entropy.rows",)}
    entropy_floor: int = choice(0, whole(0, 50))
