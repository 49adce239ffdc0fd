"""What a visitor chooses on the Claims page."""

from dataclasses import dataclass

from explorer.ui.choices import choice, one_of

GUESSES: tuple[str, ...] = ("true", "false", "depends")
"""What a visitor can think of a claim, and what an experiment can say of it."""


@dataclass(frozen=True)
class ClaimsChoices:
    """`claim` is the id of a claim ("" is the first), `guess` what the visitor thinks of it."""

    claim: str = choice("", str)
    guess: str = choice("", one_of(GUESSES))
