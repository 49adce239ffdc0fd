"""Choices on the Common bugs page."""

from dataclasses import dataclass
from typing import ClassVar

from explorer.exhibits import PageChoices
from explorer.exhibits.choices import RefusedError, choice


def read_case(text: str) -> str:
    """Read the id of a pitfall."""
    from explorer.analysis.bugs import BY_ID  # imported here to keep other pages fast

    if text not in BY_ID:
        raise RefusedError(text)
    return text


@dataclass(frozen=True)
class BugsChoices(PageChoices):
    """`case` is the id of a pitfall; "" is the first one."""

    parts: ClassVar[dict[str, tuple[str, ...]]] = {"": ("bugs.pitfall", "bugs.planted")}
    case: str = choice("", read_case)
