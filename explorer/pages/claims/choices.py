"""Choices on the Claims page."""

from dataclasses import dataclass

from explorer.exhibits.choices import RefusedError, choice, one_of

GUESSES: tuple[str, ...] = ("true", "false", "depends")
"""What a visitor can think of a claim, and what an experiment can say of it."""


OUTCOMES = {"1": True, "0": False, "-": None}
"""How a link says of a claim whether its first guess was right; "-" for one not guessed yet."""


def read_guessed(text: str) -> tuple[bool | None, ...]:
    """A letter a claim, in the order of all; what is not said at the end was not guessed."""
    from explorer.analysis.claims import CLAIMS  # no other page's first visitor waits for these

    if len(text) > len(CLAIMS) or not set(text) <= OUTCOMES.keys():
        raise RefusedError(text)
    return tuple(OUTCOMES[letter] for letter in text.rstrip("-"))


def write_guessed(guessed: tuple[bool | None, ...]) -> str:
    """What `read_guessed` reads."""
    return "".join("-" if each is None else str(int(each)) for each in guessed)


@dataclass(frozen=True)
class ClaimsChoices:
    """`claim` is the id of a claim ("" is the first), `guess` what the visitor thinks of it.

    `guessed` is whether the first guess at each of `CLAIMS` was right, None where there is none.
    """

    claim: str = choice("", str)
    guess: str = choice("", one_of(GUESSES))
    guessed: tuple[bool | None, ...] = choice((), read_guessed, write_guessed)

    def after(self, at: int, right: bool) -> tuple[bool | None, ...]:
        """`guessed` once claim `at` was guessed; the first guess counts."""
        known = self.guessed + (None,) * (at + 1 - len(self.guessed))
        return known if known[at] is not None else (*known[:at], right, *known[at + 1 :])
