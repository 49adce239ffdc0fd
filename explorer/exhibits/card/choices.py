"""Choices on the Card page: none."""

from dataclasses import dataclass
from typing import ClassVar

from explorer.exhibits import PageChoices


@dataclass(frozen=True)
class CardChoices(PageChoices):
    """Empty: the page depends only on the model, which all pages share."""

    parts: ClassVar[dict[str, tuple[str, ...]]] = {"": ("card.facts",)}
