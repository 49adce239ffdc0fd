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
    """`setup` is the setup of the next training, `seeds` its number of seeds; `room` identifies the
    user's trainings, `shown` is the number of the selected one (None: the latest), `moment` the
    step of the frame (None: the latest). `question` is a question to be decided by training,
    `expected` the user's guess.
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
