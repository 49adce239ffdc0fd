"""Choices on the page of bugs and claims."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from explorer.exhibits import PageChoices, View
from explorer.exhibits.choices import (
    PartChoices,
    RefusedError,
    as_digit,
    choice,
    one_of,
    switch,
    unlinked,
)

GUESSES: tuple[str, ...] = ("true", "false", "depends")
"""The user's guesses about a claim, and the verdicts of an experiment."""
OUTCOMES = {"1": True, "0": False, "-": None}
"""Letters in links: whether the first guess was right; "-" for no guess yet."""


def of_part(part: str) -> Callable[[str], str]:
    """Read the id of a case in this part of the page."""

    def read(text: str) -> str:
        from explorer.analysis.cases import BY_ID  # imported here to keep other pages fast

        if text not in BY_ID or BY_ID[text].part != part:
            raise RefusedError(text)
        return text

    return read


def read_guessed(text: str) -> tuple[bool | None, ...]:
    """Read one letter per claim, in the order of `GUESSED`; missing letters at the end mean no
    guess."""
    from explorer.analysis.cases import GUESSED

    if len(text) > len(GUESSED) or not set(text) <= OUTCOMES.keys():
        raise RefusedError(text)
    return tuple(OUTCOMES[letter] for letter in text.rstrip("-"))


def write_guessed(guessed: tuple[bool | None, ...]) -> str:
    """The inverse of `read_guessed`."""
    return "".join("-" if outcome is None else str(int(outcome)) for outcome in guessed)


@dataclass(frozen=True)
class CasesChoices(PageChoices):
    """`case` is the id of a bug, `claim` of a claim, `option` of a choice ("": the first); `guess`
    is the guess about the claim.

    `guessed` is whether the first guess for each of `GUESSED` was right, None if there was none.
    `turn` counts how often an experiment was run again. `tested`: the mask tests were started.
    """

    parts: ClassVar[dict[str, tuple[str, ...]]] = {
        "tests": ("cases.tests",),
        "bugs": ("cases.case", "cases.outcome", "cases.planted"),
        "claims": ("cases.case", "cases.outcome"),
        "choices": ("cases.case", "cases.outcome"),
    }
    case: str = choice("", of_part("bugs"))
    claim: str = choice("", of_part("claims"))
    option: str = choice("", of_part("choices"))
    turn: int = unlinked(0)
    tested: bool = choice(False, switch, as_digit)
    guess: str = choice("", one_of(GUESSES))
    guessed: tuple[bool | None, ...] = choice((), read_guessed, write_guessed)

    @staticmethod
    def opens(view: View) -> View:
        """A bug that is named without its part, as in links from when bugs came first."""
        shared = view.choices(PartChoices)
        if shared.part or not view.choices(CasesChoices).case:
            return view
        others = (kind for kind in view.state.owned if not isinstance(kind, PartChoices))
        owned = (*others, replace(shared, part="bugs"))
        return replace(view, state=replace(view.state, owned=owned))

    def after(self, at: int, right: bool) -> tuple[bool | None, ...]:
        """`guessed` updated for claim `at`; only the first guess counts."""
        known = self.guessed + (None,) * (at + 1 - len(self.guessed))
        return known if known[at] is not None else (*known[:at], right, *known[at + 1 :])
