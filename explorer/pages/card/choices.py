"""Choices on the Card page: none."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CardChoices:
    """Empty: the page depends only on the model, which all pages share."""
