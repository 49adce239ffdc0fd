"""Choices on the Card page: none."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class CardChoices:
    """Empty: the page depends only on the model, which all pages share."""

    parts: ClassVar[dict[str, tuple[str, ...]]] = {"": ("card.facts",)}
