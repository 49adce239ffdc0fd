"""What a visitor chooses on the Card page: nothing."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CardChoices:
    """The model, which all pages share, is all that decides this page."""
