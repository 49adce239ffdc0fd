"""One choice of a visitor: its usual value, and how a link writes and reads it.

Choices are the fields of frozen dataclasses: `url.State` for what all pages share, one class in
the folder of each page for what only that page asks. A new control is one field there.
"""

from collections.abc import Callable
from dataclasses import Field, dataclass, field
from typing import Any, TypeVar

Value = TypeVar("Value")


class RefusedError(ValueError):
    """One value of a link cannot be used."""


@dataclass(frozen=True)
class Offered:
    """Reads one of the words that pages list under `name` in a class variable of their choices."""

    name: str


@dataclass(frozen=True)
class Form:
    """How a link says one choice: `read` raises ValueError for what it cannot use.

    `read` None: it is chosen for this session alone, and is in no link.
    `of_site`: it points into one kind of attention of one model, and is forgotten with it.
    """

    read: Callable[[str], Any] | Offered | None
    write: Callable[[Any], str]
    of_site: bool


def choice(
    default: Value,
    read: Callable[[str], Value] | Offered,
    write: Callable[[Any], str] = str,
    *,
    of_site: bool = False,
) -> Value:
    """A field of a dataclass of choices; see `Form`. A link leaves the default out, and None."""
    return field(default=default, metadata={"form": Form(read, write, of_site)})


def unlinked(default: Value) -> Value:
    """A field that is chosen as others are, and stands in no link: a tool in one's hand."""
    return field(default=default, metadata={"form": Form(None, str, False)})


def link_name(name: str) -> str:
    """How links call this choice: `with_` is "with", which Python keeps for itself."""
    return name.removesuffix("_")


def form_of(each: Field[Any]) -> Form | None:
    """How a link says this field; None for a field that is in no link."""
    form: Form | None = each.metadata.get("form")
    return form


def one_of(words: tuple[Any, ...]) -> Callable[[str], Any]:
    """Read one of these words."""

    def read(text: str) -> str:
        if text not in words:
            raise RefusedError(text)
        return text

    return read


def whole(low: int, high: int, shift: int = 0) -> Callable[[str], int]:
    """Read a whole number from `low` to `high`, and take `shift` from it."""

    def read(text: str) -> int:
        plain = text.isascii() and text.isdigit() and len(text) < 10
        if not plain or not low <= int(text) <= high:
            raise RefusedError(text)
        return int(text) - shift

    return read


def from_one(high: int) -> Callable[[str], int]:
    """Read an index that links count from 1, as the screen does; `plus_one` writes it."""
    return whole(1, high, shift=1)


def plus_one(index: int) -> str:
    """What `from_one` reads."""
    return str(index + 1)


def switch(text: str) -> bool:
    """Read 0 or 1; `as_digit` writes it."""
    return bool(whole(0, 1)(text))


def as_digit(on: bool) -> str:
    """What `switch` reads."""
    return str(int(on))


def tokens(text: str) -> tuple[int, ...]:
    """Read ids between dots, `17.4.9`; `dotted` writes them."""
    return tuple(whole(0, 999_999)(each) for each in text.split(".") if text)


def dotted(numbers: tuple[int, ...]) -> str:
    """Numbers between dots."""
    return ".".join(map(str, numbers))
