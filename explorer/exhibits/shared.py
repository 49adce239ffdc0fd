"""Choices kept in the link that are no single page's: how the app is drawn, which part is open."""

from dataclasses import dataclass

from explorer.exhibits.choices import Offered, as_digit, choice, one_of, switch, whole

THEMES = ("light", "dark")


@dataclass(frozen=True)
class ScreenChoices:
    """`beamer`: drawn large, for a class; `theme` "" is the visitor's own."""

    beamer: bool = choice(False, switch, as_digit)
    theme: str = choice("", one_of(THEMES))


@dataclass(frozen=True)
class PartChoices:
    """What several pages offer, each in words of its own.

    `part` is one of the `parts` of a page's choices, `picture` (what its picture shows) one of
    their `pictures`, `stream` a token stream, `kv_heads` how many heads of keys and values a layout
    of the cache is shown for (None: the model's own).
    """

    part: str = choice("", Offered("parts"))
    picture: str = choice("", Offered("pictures"))
    stream: str = choice("", one_of(("src", "tgt")))
    kv_heads: int | None = choice(None, whole(1, 999))
