"""A choice of the user: its default, and how a link writes and reads it.

Choices are the fields of frozen dataclasses: `links.State` for those that all pages share, one
class in the folder of each page for its own, and those here. To add a control, add one field.
"""

from collections.abc import Callable
from dataclasses import Field, dataclass, field
from typing import Any, TypeVar

Value = TypeVar("Value")
MOST_PAIRS = 400
"""Pairs of indices in one choice."""


class RefusedError(ValueError):
    """A value in a link cannot be used."""


@dataclass(frozen=True)
class Offered:
    """Reads one of the options that pages list in the class variable `name` of their choices."""

    name: str


@dataclass(frozen=True)
class Form:
    """How a link writes and reads one choice; `read` raises ValueError for an invalid value.

    `read` None: the choice lasts for this session and is not part of links.
    `of_site`: it points into one kind of attention of one model, and is dropped with it.
    `model`: it is the name of a model.
    """

    read: Callable[[str], Any] | Offered | None
    write: Callable[[Any], str]
    of_site: bool
    model: bool = False


def choice(
    default: Value,
    read: Callable[[str], Value] | Offered,
    write: Callable[[Any], str] = str,
    *,
    of_site: bool = False,
) -> Value:
    """A field of a dataclass of choices; see `Form`. Links omit the default and None."""
    return field(default=default, metadata={"form": Form(read, write, of_site)})


def model_name() -> str:
    """A field with the name of a model, "" for none; a link never opens another user's own."""
    return field(default="", metadata={"form": Form(str, str, False, model=True)})


def unlinked(default: Value) -> Value:
    """A field that is not part of links, such as the selected tool."""
    return field(default=default, metadata={"form": Form(None, str, False)})


def link_name(name: str) -> str:
    """The name of this choice in links: `with_` becomes "with", a reserved word in Python."""
    return name.removesuffix("_")


def form_of(each: Field[Any]) -> Form | None:
    """How a link writes this field; None for a field that is not part of links."""
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
    """Read an integer from `low` to `high`, and subtract `shift` from it."""

    def read(text: str) -> int:
        plain = text.isascii() and text.isdigit() and len(text) < 10
        if not plain or not low <= int(text) <= high:
            raise RefusedError(text)
        return int(text) - shift

    return read


def from_one(high: int) -> Callable[[str], int]:
    """Read an index, which links count from 1; `plus_one` writes it."""
    return whole(1, high, shift=1)


def plus_one(index: int) -> str:
    """Write an index for `from_one`."""
    return str(index + 1)


def switch(text: str) -> bool:
    """Read 0 or 1; `as_digit` writes it."""
    return bool(whole(0, 1)(text))


def as_digit(on: bool) -> str:
    """Write a flag for `switch`."""
    return str(int(on))


def pairs(text: str) -> tuple[tuple[int, int], ...]:
    """Read distinct pairs of indices, `3-2_4-3`; `joined` writes them."""
    ends = [pair.partition("-") for pair in text.split("_")] if text else []
    if len(ends) > MOST_PAIRS:
        raise RefusedError(text)
    index = whole(0, 9_999)
    return tuple(dict.fromkeys((index(first), index(second)) for first, _, second in ends))


def joined(numbers: tuple[tuple[int, int], ...] | None) -> str:
    """Write pairs for `pairs`."""
    return "_".join(f"{first}-{second}" for first, second in numbers or ())


def tokens(text: str) -> tuple[int, ...]:
    """Read ids separated by dots, `17.4.9`; `dotted` writes them."""
    return tuple(whole(0, 999_999)(piece) for piece in text.split(".") if text)


def dotted(numbers: tuple[int, ...]) -> str:
    """Write numbers separated by dots."""
    return ".".join(map(str, numbers))


THEMES = ("light", "dark")


@dataclass(frozen=True)
class ScreenChoices:
    """`beamer`: presentation mode; `theme` "" is the user's own."""

    beamer: bool = choice(False, switch, as_digit)
    theme: str = choice("", one_of(THEMES))


@dataclass(frozen=True)
class PartChoices:
    """Choices that several pages offer, each with its own texts.

    `part` is one of the `parts` of a page's choices, `picture` (what its picture shows) one of
    their `pictures`, `stream` a sequence ("src", "tgt"), and `kv_heads` the number of key/value
    heads for which the cache layout is shown (None: the model's own). `without_sinks`: patterns are
    drawn without each head's sinks.
    """

    part: str = choice("", Offered("parts"))
    picture: str = choice("", Offered("pictures"))
    stream: str = choice("", one_of(("src", "tgt")))
    kv_heads: int | None = choice(None, whole(1, 999))
    without_sinks: bool = choice(False, switch, as_digit)
