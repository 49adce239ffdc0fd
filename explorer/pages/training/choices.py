"""Choices on the Training page."""

from dataclasses import dataclass
from typing import ClassVar

from explorer.exhibits.choices import RefusedError, choice, whole
from explorer.training.setup import Setup, format_setup, parse_setup

USUAL = Setup()
MOST_SEEDS = 5


def _setup(text: str) -> Setup:
    try:
        return parse_setup(text)
    except (ValueError, TypeError) as error:
        raise RefusedError(text) from error


def _room(text: str) -> str:
    if not text.replace("-", "").replace("_", "").isalnum() or not text.isascii() or len(text) > 40:
        raise RefusedError(text)
    return text


@dataclass(frozen=True)
class TrainingChoices:
    """`setup` is what the next training will be, `seeds` with how many seeds; `room` where this
    visitor's trainings are found, `shown` the number of the one that is looked at (None: the
    newest), `moment` the step of the frame (None: the newest). `question` is one to be decided by
    trainings, `expected` what the visitor expects.
    """

    pictures: ClassVar[tuple[str, ...]] = ("loss", "forced", "free", "rows")
    parts: ClassVar[tuple[str, ...]] = ("live", "opened", "compared", "asked")
    setup: Setup = choice(USUAL, _setup, format_setup)
    seeds: int = choice(1, whole(1, MOST_SEEDS))
    room: str = choice("", _room)
    shown: int | None = choice(None, whole(1, 9999))
    moment: int | None = choice(None, whole(0, 9999))
    weight: str = choice("", str)
    question: str = choice("", str)
    expected: str = choice("", str)
