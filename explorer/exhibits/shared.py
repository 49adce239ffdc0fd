"""Choices in the link that several pages share: how the app is drawn, which part is open."""

from dataclasses import dataclass

from explorer.exhibits.choices import Offered, as_digit, choice, one_of, switch, whole

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
    heads for which the cache layout is shown (None: the model's own).
    """

    part: str = choice("", Offered("parts"))
    picture: str = choice("", Offered("pictures"))
    stream: str = choice("", one_of(("src", "tgt")))
    kv_heads: int | None = choice(None, whole(1, 999))
