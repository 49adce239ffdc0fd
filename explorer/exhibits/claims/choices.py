"""Choices on the Claims page."""

from dataclasses import dataclass
from typing import ClassVar

from explorer.exhibits import PageChoices
from explorer.exhibits.choices import RefusedError, choice, one_of, unlinked

GUESSES: tuple[str, ...] = ("true", "false", "depends")
"""The user's guesses about a claim, and the verdicts of an experiment."""


OUTCOMES = {"1": True, "0": False, "-": None}
"""Letters in links: whether the first guess was right; "-" for no guess yet."""


def read_claim(text: str) -> str:
    """Read the id of a claim."""
    from explorer.analysis.claims import BY_ID  # imported here to keep other pages fast

    if text not in BY_ID:
        raise RefusedError(text)
    return text


def read_guessed(text: str) -> tuple[bool | None, ...]:
    """Read one letter per claim, in the order of `CLAIMS`; missing letters at the end mean no
    guess."""
    from explorer.analysis.claims import CLAIMS

    if len(text) > len(CLAIMS) or not set(text) <= OUTCOMES.keys():
        raise RefusedError(text)
    return tuple(OUTCOMES[letter] for letter in text.rstrip("-"))


def write_guessed(guessed: tuple[bool | None, ...]) -> str:
    """The inverse of `read_guessed`."""
    return "".join("-" if each is None else str(int(each)) for each in guessed)


@dataclass(frozen=True)
class ClaimsChoices(PageChoices):
    """`claim` is the id of a claim ("" is the first), `guess` the user's guess.

    `guessed` is whether the first guess for each of `CLAIMS` was right, None if there was none.
    `turn` counts how often an experiment was run again.
    """

    parts: ClassVar[dict[str, tuple[str, ...]]] = {"": ("claims.claim", "claims.finding")}
    claim: str = choice("", read_claim)
    turn: int = unlinked(0)
    guess: str = choice("", one_of(GUESSES))
    guessed: tuple[bool | None, ...] = choice((), read_guessed, write_guessed)

    def after(self, at: int, right: bool) -> tuple[bool | None, ...]:
        """`guessed` updated for claim `at`; only the first guess counts."""
        known = self.guessed + (None,) * (at + 1 - len(self.guessed))
        return known if known[at] is not None else (*known[:at], right, *known[at + 1 :])
